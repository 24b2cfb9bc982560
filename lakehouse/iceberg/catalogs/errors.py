"""Errors of pyiceberg and of the libraries below it, as ours.

Invariant: an error that leaves a catalog is one of ours, names the catalog, and shows none of its secrets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lakehouse._version import install_command
from lakehouse.errors import (
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.iceberg.catalogs.properties import CatalogProperties

__all__ = ["missing_extra", "translated"]

_EXTRAS = {"hive": "pyiceberg[hive]", "glue": "pyiceberg[glue]", "sql": "pyiceberg[sql-postgres]"}
"""Requirements that bring the libraries which types of catalogs need besides pyiceberg."""
_MISSING_TABLE = {"NoSuchTableError", "NoSuchIcebergTableError", "NoSuchIdentifierError"}
_DENIED = {"UnauthorizedError", "ForbiddenError", "AuthorizationExpiredError", "OAuthError", "SignError"}
_DENIED_AWS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "TokenRetrievalError",
}
_REFUSED_CODES = {"AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"}
_BUSY = {"ServiceUnavailableError", "ServerError"}
_UNREACHABLE = {
    *("ConnectionError", "ConnectTimeout", "SSLError", "EndpointConnectionError", "ConnectTimeoutError"),
    *("TTransportException", "OperationalError", "ConnectionRefusedError", "gaierror"),
}
_WRONG_CALL = {
    "BadRequestError",
    "ArgumentError",
    "NoSuchModuleError",
    "InvalidURL",
    "MissingSchema",
    "InvalidSchema",
}


@contextlib.contextmanager
def translated(properties: CatalogProperties, doing: str) -> Iterator[None]:
    """Raises errors of a block as ours.

    Args:
        properties: of the catalog.
        doing: what is done in the block, for messages, such as ``loading table a.b``.
    """
    with properties.secrets.hiding():
        try:
            yield
        except LakehouseError:
            raise
        except Exception as error:
            # The one border to pyiceberg, requests, SQLAlchemy, Thrift and botocore: they share no root.
            raise _ours(error, properties, doing) from error


def missing_extra(what: str) -> InvalidInputError:
    """Returns the error for a catalog whose library is not installed."""
    return InvalidInputError(
        f"{what} needs the [iceberg] extra: {install_command('iceberg')}", kind="missing-extra"
    )


def _ours(error: Exception, properties: CatalogProperties, doing: str) -> LakehouseError:
    names = {one.__name__ for one in type(error).__mro__}
    where = f"catalog {properties.name!r}: {doing}"
    facts = {"catalog": properties.name}
    text = str(error) or type(error).__name__
    if names & _MISSING_TABLE:
        return NotFoundError(f"{where}: there is no such table", missing="table", **facts)
    if "NoSuchNamespaceError" in names:
        return NotFoundError(f"{where}: there is no such namespace", missing="namespace", **facts)
    if names & {"NotInstalledError", "ImportError"}:
        return InvalidInputError(
            f"{where}: a library for catalogs of type {properties.type!r} is not installed: "
            f"pip install '{_EXTRAS.get(properties.type, 'pyiceberg')}' ({text})",
            kind="missing-extra",
            **facts,
        )
    if names & (_DENIED | _DENIED_AWS) or _code(error) in _REFUSED_CODES:
        return PermissionDeniedError(
            f"{where}: the catalog refuses these credentials: check token, credential or keys. It says: "
            f"{text}",
            **facts,
        )
    if "TooManyRequestsError" in names:
        return UnavailableError(
            f"{where}: the catalog asks for fewer requests: {text}", kind="throttled", **facts
        )
    if names & _BUSY:
        return UnavailableError(f"{where}: the catalog has trouble: {text}", **facts)
    if names & {"Timeout", "TimeoutError"}:
        return UnavailableError(
            f"{where}: the catalog gave no answer in time: {text}", kind="timeout", **facts
        )
    if names & _UNREACHABLE:
        at = f" at {properties.given['uri']}" if "uri" in properties.given else ""
        return UnavailableError(
            f"{where}: the catalog{at} cannot be reached or used: check that it runs, and uri. {text}",
            kind="unreachable",
            **facts,
        )
    if "NotImplementedError" in names:
        return InvalidInputError(f"{where}: the catalog cannot do that: {text}", kind="unsupported", **facts)
    if "ValidationError" in names or "JSONDecodeError" in names:
        return CorruptionError(
            f"{where}: what the catalog answers is not what Iceberg says: check that uri names a catalog. "
            f"{text}",
            **facts,
        )
    if names & _WRONG_CALL or isinstance(error, ValueError | KeyError | TypeError):
        return InvalidInputError(f"{where}: check the properties of the catalog: {text}", **facts)
    return UnavailableError(f"{where} failed: {type(error).__name__}: {text}", **facts)


def _code(error: Exception) -> str:
    """Returns the code of an error of AWS."""
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""
