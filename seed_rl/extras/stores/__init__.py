"""Log directories in object stores: `gs://`, `s3://` and the other protocols of fsspec."""
