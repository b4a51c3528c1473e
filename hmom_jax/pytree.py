"""Dataclasses that JAX can take apart."""

import dataclasses

import jax


def pytree(cls):
    """Register a frozen dataclass as a pytree; fields with ``metadata={"static": True}`` are part of its structure.

    Unlike ``jax.tree_util.register_dataclass``, putting it together again does not go through ``__init__``: JAX holds
    shapes or absent derivatives in the places of arrays, which no check of types would let pass.
    """
    fields = dataclasses.fields(cls)
    leaves = [field.name for field in fields if not field.metadata.get("static")]
    static = [field.name for field in fields if field.metadata.get("static")]

    def flatten_with_keys(value):
        named = [(jax.tree_util.GetAttrKey(name), getattr(value, name)) for name in leaves]
        return named, tuple(getattr(value, name) for name in static)

    def flatten(value):
        return [getattr(value, name) for name in leaves], tuple(getattr(value, name) for name in static)

    def unflatten(kept, parts):
        value = object.__new__(cls)
        for name, part in (*zip(leaves, parts, strict=True), *zip(static, kept, strict=True)):
            object.__setattr__(value, name, part)
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
