"""JSON with a digest of every field, so that an edited field is recognised; it may be signed.

Everyone can compute digests, so they show accidents and casual edits only (integrity). A signature
shows who wrote the file (authentication).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from scorewise import _validate as validate
from scorewise._files import replacing
from scorewise._text import quoted, shorten
from scorewise.errors import InvalidInput, Remedy

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_DIGESTS, _SIGNATURE = "sha256", "signature"


def write_sealed(path: Path, content: Mapping[str, Any], signing_key: Path | None = None) -> None:
    """Write fields, a line for each, with their digests; and a signature if there is a key.

    A file that exists is replaced only if it is of the same kind, or empty.
    """
    _check_kind(path, content["kind"])
    content = {**content, _DIGESTS: _digests(content)}
    if signing_key is not None:
        signature = _private_key(signing_key).sign(_signed_bytes(content))
        content = {**content, _SIGNATURE: base64.b64encode(signature).decode()}
    lines = [f" {json.dumps(name)}: {_canonical(value)}" for name, value in content.items()]
    with replacing(path) as partial:
        partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the content of a file; raises for repeated names, and for NaN and infinities."""
    return json.loads(
        path.read_text(encoding="utf-8"),
        object_pairs_hook=_without_repeated_names,
        parse_constant=_refuse_constant,
    )


def _check_kind(path: Path, kind: str) -> None:
    """Raise if there is a file that is something else than what replaces it."""
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        read_sealed(path, kind)
    except (ValueError, RecursionError):
        noun = kind.removeprefix("scorewise ")
        raise InvalidInput(
            f"{path.name!r} exists and is not a {noun}, so it is not replaced; write to another "
            "file, or remove it first"
        ) from None


class WrongKind(ValueError):
    """A file that is something else than the reader expects."""


def read_sealed(path: Path, kind: str) -> dict[str, Any]:
    """Return the content of a file of this kind, with its digests; raises for other files."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise WrongKind
    return content


@contextmanager
def refusing_damage(path: Path, noun: str, verb: str) -> Iterator[None]:
    """Let errors name the file, and say what to do.

    A policy is the ``noun`` that ``scorewise certify`` makes, with the verb "certify".
    """
    try:
        yield
    except (UnicodeDecodeError, WrongKind):
        problem = f"{path.name!r} is not a {noun}; scorewise {verb} makes them"
        raise InvalidInput(problem) from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path.name!r} is not a JSON file: {error}") from None
    except KeyError as error:
        problem = f"the field {error} is missing"
    except InvalidInput as error:
        problem = error.problem  # without remedies, which are for arguments
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        problem = str(error)
    else:
        return
    raise InvalidInput(
        f"{path.name!r} is a damaged {noun}: {shorten(problem, 300)}; restore the file, or {verb} "
        "again"
    )


def unseal(content: Mapping[str, Any], noun: str) -> dict[str, Any]:
    """Return the fields of a file; raises, with the name of the field, if one was changed."""
    fields = {name: x for name, x in content.items() if name not in (_DIGESTS, _SIGNATURE)}
    stored, actual = content[_DIGESTS], _digests(fields)
    if not isinstance(stored, dict):
        raise ValueError(f"{_DIGESTS} must be a mapping of digests")
    for name in {**actual, **stored}:
        if stored.get(name) != actual.get(name):
            raise ValueError(
                f"{shorten(name)} does not match its digest, so it was changed after the {noun} "
                "was saved"
            )
    return fields


def _digests(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of every field, and of every field of a mapping."""
    digests = {}
    for name, value in _leaves(content):
        try:
            text = _canonical(value)
        except ValueError:
            raise ValueError(f"{shorten(name)} holds a number beyond float64") from None
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
    return digests


def _leaves(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", x) for key, x in value.items())
        else:
            yield name, value


def _canonical(value: Any) -> str:
    """Return a JSON value as text that does not depend on the order of its names."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    repeated = validate.first_repeated(name for name, _ in pairs)
    if repeated is not None:
        raise ValueError(f"{quoted(repeated)} occurs twice")
    return dict(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


# -- signatures ------------------------------------------------------------------------------------


def _signed_bytes(content: Mapping[str, Any]) -> bytes:
    """Return what is signed: the digests, which depend on every field."""
    return b"scorewise policy " + _canonical(content[_DIGESTS]).encode()


def verify_signature(content: Mapping[str, Any], public_key: Path, name: str) -> None:
    """Raise unless the digests of the file ``name`` are signed with the key's private key."""
    key = _public_key(public_key)
    signature = content.get(_SIGNATURE)
    if signature is None:
        raise InvalidInput(
            f"{name!r} is not signed",
            Remedy("public_key", None, "if you trust the source of the file"),
        )
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(signature, validate=True), _signed_bytes(content))
    except (InvalidSignature, KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"{name!r} is not signed with the key of {str(public_key)!r}: it is by someone else, "
            "or was changed"
        ) from None


def _private_key(path: Path) -> Ed25519PrivateKey:
    with _needing_cryptography():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    text = path.read_bytes()
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError:
        raise InvalidInput(
            f"the key {str(path)!r} is encrypted; pass a file with the decrypted key "
            "(openssl pkey -in encrypted.pem -out key.pem)"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{str(path)!r} is not an Ed25519 private key in PEM format; make one by "
            "openssl genpkey -algorithm ed25519 -out key.pem"
        )
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    with _needing_cryptography():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    text = path.read_bytes()
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(
            f"{str(path)!r} is not an Ed25519 public key in PEM format; get it from the private "
            "key by openssl pkey -in key.pem -pubout -out public.pem"
        )
    return key


@contextmanager
def _needing_cryptography() -> Iterator[None]:
    """Let the error of a missing library say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError("signatures need cryptography: pip install 'scorewise[sign]'") from error
