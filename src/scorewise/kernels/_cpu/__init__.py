"""The compiled part of the CPU kernel: from vectors up to the fused pass, and how it is loaded."""
