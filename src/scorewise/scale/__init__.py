"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""

from scorewise.scale._member_tree import decompose_members

__all__ = ["decompose_members"]
