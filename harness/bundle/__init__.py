"""Evidence in one signed archive that anybody can check later, offline."""
