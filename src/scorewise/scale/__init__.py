"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""

# What other packages pass Dask collections to, by scorewise._lazy.at_scale; users call those.
from scorewise.scale._acquire import acquire_rows as acquire_rows
from scorewise.scale._member_tree import decompose_members as decompose_members
from scorewise.scale._row_predictions import predict_blocks as predict_blocks
from scorewise.scale._row_predictions import predict_into as predict_into

__all__: list[str] = []
