"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""
