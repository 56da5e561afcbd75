"""What kind of work a device kernel does, and which collective it is, told from its name.

The rules are data (``categories.toml``): ordered regular expressions, the first that matches decides. Names come from
files that anyone may have written, so only their first ``MAX_CHARS`` characters are looked at.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import ChakraError
from chakra_core.schema import Category, CommOp

__all__ = ["MAX_CHARS", "classify_name", "classify_names", "comm_op_of", "comm_ops_of", "kernel_head", "load_rules"]

MAX_CHARS = 600
"""How much of a name is matched."""

_RETURN_TYPE = re.compile(r"^(?:void|int|float|double|bool|__global__|static|inline)\s+")
_ANONYMOUS = ("(anonymous namespace)", "{anonymous}", "_GLOBAL__N_1")


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    on_full: bool
    category: Category


@cache
def load_rules(extra: Path | None = None) -> tuple[_Rule, ...]:
    """Compile the rules: those of ``extra`` (a TOML file of the same form) first, then the built-in ones.

    Raises:
        ChakraError: a rule names an unknown category, an unknown key or no regular expression.
    """
    built_in = files("chakra_core").joinpath("categories.toml")
    own = () if extra is None else _compile(extra.read_text(encoding="utf-8"), str(extra))
    return (*own, *_compile(built_in.read_text(encoding="utf-8"), "categories.toml"))


def _compile(text: str, where: str) -> tuple[_Rule, ...]:
    try:
        entries: list[dict[str, Any]] = tomllib.loads(text).get("rule", [])
        return tuple(_compile_rule(entry) for entry in entries)
    except (tomllib.TOMLDecodeError, re.error, KeyError, ValueError, TypeError) as error:
        raise ChakraError(f"{where}: not a list of classification rules: {error}; see categories.toml") from error


def _compile_rule(entry: Mapping[str, Any]) -> _Rule:
    on = entry.get("on", "head")
    if on not in ("head", "full"):
        raise ValueError(f"on = {on!r}: expected 'head' or 'full'")
    return _Rule(re.compile(entry["match"]), on == "full", Category[str(entry["category"]).upper()])


def kernel_head(name: str) -> str:
    """The kernel's own name: without return type, template arguments and parameters.

    >>> kernel_head("void at::native::reduce_kernel<512, 1, ReduceOp<float>>(ReduceOp<float>)")
    'at::native::reduce_kernel'
    """
    text = name
    for marker in _ANONYMOUS[:2]:
        text = text.replace(marker + "::", "")
    text = _RETURN_TYPE.sub("", text)
    ends = [at for at in (text.find("<"), text.find("(")) if at > 0]
    return text[: min(ends)] if ends else text


@lru_cache(maxsize=65536)
def classify_name(name: str, extra: Path | None = None) -> Category:
    """Category of one kernel name; ``Category.OTHER`` where no rule matches.

    Raises:
        ChakraError: ``extra`` is not a file of rules.
    """
    full = name[:MAX_CHARS]
    head = kernel_head(full)
    for rule in load_rules(extra):
        if rule.pattern.search(full if rule.on_full else head):
            return rule.category
    return Category.OTHER


def classify_names(names: Sequence[str], extra: Path | None = None) -> NDArray[np.int8]:
    """Category codes of kernel names (int8, one per name); ``Category.OTHER`` where no rule matches.

    Raises:
        ChakraError: ``extra`` is not a file of rules.
    """
    return np.fromiter((classify_name(name, extra) for name in names), np.int8, count=len(names))


_COMM_WORDS: Mapping[CommOp, str] = MappingProxyType(
    {
        CommOp.REDUCE_SCATTER_BLOCK: r"reduce_?scatter_?block",
        CommOp.REDUCE_SCATTER: r"reduce_?scatter|^psum_scatter",
        CommOp.ALL_REDUCE: r"all_?reduce|cross_device_reduce|quick_?reduce|^p(?:sum|mean|max|min)(?!_scatter)",
        CommOp.ALL_GATHER: r"all_?gather",
        CommOp.ALL_TO_ALL: r"all_?to_?all|deep_ep::|(?:intranode|internode(?:_ll)?)::(?:dispatch|combine)|_a2a_",
        CommOp.BROADCAST: r"broadcast",
        CommOp.BARRIER: r"barrier",
        CommOp.GATHER: r"gather",
        CommOp.SCATTER: r"scatter",
        CommOp.REDUCE: r"reduce(?!_by|bykey)",
    }
)
_COMM_PATTERNS = tuple((op, re.compile(words)) for op, words in _COMM_WORDS.items())
_COMM_SEND = re.compile(r"(?:^|[:_ ])i?send(?:$|[ _.\d])|^(?:nccl|rccl|gloo|mpi|c10d)\w*:+i?send")
_COMM_RECV = re.compile(r"(?:^|[:_ ])i?recv(?:_?any_?source)?(?:$|[ _.\d])|^(?:nccl|rccl|gloo|mpi|c10d)\w*:+i?recv")
_COMM_SIGN = re.compile(
    r"^_*(?:nccl|rccl|gloo|mpi|ucc|hccl|hcom|xccl|oneccl|ccl|c10d|_?c10d_functional|dist|msccl)[a-z0-9]*(?:[:_.]|$)|"
    r"nccl(?:dev)?kernel|rcclgenerickernel|cross_device_reduce|multimem_|deep_ep::|shmem|intranode::|internode|"
    r"(?:one|two)_shot_|lamport|quick_?reduce|mscclkernel"
)
_COMM_BARE = re.compile(
    r"^_?(?:all_?reduce|all_?gather|gather|scatter|reduce|reduce_?scatter|broadcast|barrier|all_?to_?all|i?send|i?recv|"
    r"collective_?permute|collective_?broadcast|p(?:sum|mean|max|min|permute)(?:_invariant|_scatter)?(?=[.\d]))(?:v|_?base|_?into|_?tensor|_?single|_?coalesced|_?oop|_?block|_?sparse|"
    r"_?out|_?any_?source|_?list|_?start|_?done|_?kernel|_|[.\d])*(?:$| )"
)


@lru_cache(maxsize=65536)
def comm_op_of(name: str) -> CommOp:
    """Communication operation named by a kernel, an annotation, a c10d operator or a ``Collective name`` argument.

    ``CommOp.NONE`` where the name is none; ``CommOp.UNKNOWN`` where it is communication of an unnamed sort (NCCL's
    SendRecv and Generic kernels, which serve several collectives).

    >>> comm_op_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"), comm_op_of("nccl:_all_gather_base")
    (<CommOp.ALL_REDUCE: 0>, <CommOp.ALL_GATHER: 2>)
    """
    text = kernel_head(name[:MAX_CHARS]).lower().replace("-", "_").strip()
    if not (_COMM_SIGN.search(text) or _COMM_BARE.match(text)) or text.endswith("::wait") or "sendrecv" in text:
        return CommOp.UNKNOWN if "sendrecv" in text else CommOp.NONE
    if "collective_permute" in text or text.startswith("ppermute"):
        return CommOp.PERMUTE
    for op, pattern in _COMM_PATTERNS:
        if pattern.search(text):
            return op
    if _COMM_SEND.search(text):
        return CommOp.SEND
    if _COMM_RECV.search(text):
        return CommOp.RECV
    return CommOp.UNKNOWN if re.search(r"kernel|generic", text) else CommOp.NONE


def comm_ops_of(names: Sequence[str]) -> NDArray[np.int8]:
    """``comm_op_of`` for many names (int8 CommOp codes)."""
    return np.fromiter((comm_op_of(name) for name in names), np.int8, count=len(names))
