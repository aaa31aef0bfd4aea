"""A Toolbox in the words of somebody's SDK: one file each, the only importer of that SDK."""
