"""Past one device: meshes of devices, several processes, corpora on disk."""
