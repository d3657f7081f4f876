"""How long does a newcomer need from the README to a first certified classifier?

    python benchmarks/newcomer.py

Follows the README in a new folder: clones the repository, makes an environment, installs as the
README says, and runs its first example. Its certificate must accept rows, and hold for new ones.
Prints the share of ten minutes that each step takes. Fails if a step fails, or if all take longer
than that.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from measuring import Others, Sheet, machine

ROOT = Path(__file__).parents[1]
LIMIT = 600  # seconds


def first_block(text: str, language: str) -> str:
    """The first block of code of this language."""
    block = re.search(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert block
    return block[1]


def steps() -> dict[str, str]:
    """The commands that a newcomer types, in order, by what they do."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install = first_block(readme.partition("## Install")[2], "sh")
    example = first_block(readme, "python")
    checks = """
is_wrong = (model.predict(X_new) != y_new)[model.accepts(X_new)]
assert len(is_wrong) > 0 and is_wrong.mean() <= model.max_loss
"""
    return {
        "clone": f"git clone --quiet '{ROOT}' scorewise",
        "make an environment": f"'{sys.executable}' -m venv venv",
        "install": f". venv/bin/activate && cd scorewise && {install}",
        "run the first example": f"venv/bin/python - <<'EOF'\n{example}{checks}EOF",
    }


def main() -> None:
    """Follow the steps in a folder that is removed afterwards, and show what they took."""
    others = Others()
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, command in steps().items():
            start = time.perf_counter()
            subprocess.run(["bash", "-euc", command], cwd=folder, check=True, timeout=LIMIT)
            times[name] = time.perf_counter() - start
    times["all"] = sum(times.values())
    rows = [[name, f"{seconds / LIMIT:.1%}"] for name, seconds in times.items()]
    title = "From the README to a certified classifier"
    Console().print(f"{machine()}. {others}")
    Console().print(Sheet(title, ["step", "share of ten minutes"], rows, 1).rich())
    if times["all"] > LIMIT:
        sys.exit("This took longer than ten minutes.")


if __name__ == "__main__":
    main()
