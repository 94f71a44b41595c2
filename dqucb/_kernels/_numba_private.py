"""The parts of Numba that are used here and are not public; `tests/test_numba_private.py` fails if one moves."""

import ctypes
import pickle
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import caching, cgutils, codegen, compiler, serialize
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.extending import intrinsic

# Options of `njit` that Numba does not document. Kernels pass their arrays as tuples of some 70 words, and inlining
# makes that free (2.5 times on the window). They do not allocate, so they need no reference counts: with them a step of
# QUCB costs 530 ns, without 20.
OPTIONS: dict[str, Any] = {"forceinline": True, "_nrt": False, "no_cfunc_wrapper": True}  # C never calls them
# Settings of Numba that change machine code and that its own cache does not look at.
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")
_GENERATOR: Any = numba.typeof(np.random.default_rng(0))
_BITS: Any = numba.typeof(np.random.PCG64(0))
_PCG64_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_LIBRARY, _DESCRIPTION, _ANNOTATION = 0, 1, 6  # places in what `CompileResult._reduce` returns


class Cache(caching._Cache):
    """The cache of a dispatcher.

    A subclass has `load_overload(signature, context)`, which returns a compiled function or None, and
    `save_overload(signature, compiled)`.
    """

    @property
    def cache_path(self) -> None:
        """Numba's statistics ask for a folder; there is none per function."""

    def enable(self) -> None:
        """Numba's interface; nothing calls it."""

    def disable(self) -> None:
        """Numba's interface; nothing calls it."""

    def flush(self) -> None:
        """Numba's interface; `recompile` calls it, and a file that is there already is written again."""


class _InlinedLibrary(codegen.JITCodeLibrary):
    """LLVM code of a function that is only ever linked into the kernels that call it.

    It is optimised there, with everything around it. Optimising it by itself as well, and generating machine code that
    nothing calls, took half of the time that compiling took.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Zero, which stands for none."""
        return 0

    @property
    def codegen(self) -> Any:
        """Numba stores the environment of a function in its machine code; kernels never raise, so need none."""
        return _NoEnvironment


class _NoEnvironment:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class _InlinedCompiler(compiler.Compiler):
    def compile_extra(self, function: Any) -> Any:
        self.state.library = _InlinedLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


# Options of `njit` for functions that only kernels call.
INLINED: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": _InlinedCompiler}


class KernelDispatcher(CPUDispatcher):
    """A kernel as Python calls it; other kernels call `inner`, the same function compiled for inlining.

    Three quarters of the functions that are compiled are only ever called by others, and need neither a wrapper for
    Python nor a file on disk.
    """

    inner: Any

    @property
    def _numba_type_(self) -> Any:
        return self.inner._numba_type_


def kernel_dispatcher(function: Any, cache: Cache, options: dict[str, Any]) -> Any:
    """Compile `function` lazily with the options of `njit`; the function itself where there is no JIT."""
    made = numba.njit(**options)(function)
    if made is function:
        return function
    made.__class__ = KernelDispatcher
    made.inner = numba.njit(**options, **INLINED)(function)
    made._cache = cache
    return made


def target_of(context: Any) -> tuple[str, str, str]:
    """(triple, name of the CPU, its features) that a target context generates code for."""
    triple, cpu, features = context.codegen().magic_tuple()
    return triple, cpu, features


def host_triple() -> str:
    """The platform, as LLVM spells it."""
    return str(llvmlite.binding.get_process_triple())


def host_features() -> frozenset[str]:
    """What the processor can do, in LLVM's names; empty where LLVM does not know."""
    try:
        return frozenset(name for name, there in llvmlite.binding.get_host_cpu_features().items() if there)
    except RuntimeError:
        return frozenset()


def cpu_is_chosen() -> bool:
    """Whether the user asked Numba for a CPU other than this one."""
    return numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None or not numba.config.ENABLE_AVX


def settings() -> str:
    """Numba's settings that change machine code, and its version."""
    return f"{numba.__version__} {[str(getattr(numba.config, name, None)) for name in _SETTINGS]}"


def signature_name(numba_type: Any) -> str:
    """An unambiguous name of a signature or type; Numba's own leaves out the module of a NamedTuple."""
    if isinstance(numba_type, (tuple, list)):
        return f"({', '.join(map(signature_name, numba_type))})"
    if hasattr(numba_type, "instance_class") and hasattr(numba_type, "types"):
        made = numba_type.instance_class
        return f"{made.__module__}.{made.__qualname__}{signature_name(tuple(numba_type.types))}"
    return str(numba_type)


def packed(compiled: Any) -> bytes | None:
    """The bytes of a compiled function; None if its code is valid in this process only.

    They leave out the typed source text, and the bitcode from which others would inline the function: no kernel calls
    what Python calls (`KernelDispatcher`).
    """
    if compiled.library.has_dynamic_globals or compiled.lifted:
        return None
    parts = list(compiled._reduce())
    name, kind, (code, _) = parts[_LIBRARY]
    parts[_LIBRARY] = name, kind, (code, llvmlite.binding.parse_assembly("").as_bitcode())
    parts[_ANNOTATION] = ""
    return serialize.dumps(tuple(parts))


def unpacked(data: bytes, context: Any) -> Any:
    """The compiled function of which these are the bytes, linked into this process."""
    # Numba would also load everything that it knows to compile (`context.refresh`), which takes five times as long as
    # the rest and is done before anything is compiled anyway.
    rtsys.initialize(context)
    parts = pickle.loads(data)
    described = parts[_DESCRIPTION]
    # The linker finds a function only if it is known as defined, which Numba reads from the bitcode.
    names = (described.llvm_func_name, described.llvm_cpython_wrapper_name)
    context.codegen()._engine._defined_symbols.update(names)
    return compiler.CompileResult._rebuild(context, *parts)


def instance_class(numba_type: Any) -> type:
    """The NamedTuple class that a Numba type stands for; NoneType for None."""
    return getattr(numba_type, "instance_class", type(None))


@intrinsic
def generator_at(context, state, next_uint64, next_double):
    """A Numba generator over the addresses of a bit generator's state and functions."""

    def generate(context, builder, signature, arguments):
        return _generator(context, builder, *arguments)

    return _GENERATOR(state, next_uint64, next_double), generate


@intrinsic
def pcg64_at(context, words):
    """The same over the four words of a PCG64, whose numbers are drawn in the kernel and not by a call into NumPy."""

    def generate(context, builder, signature, arguments):
        (address,) = arguments
        drawing = [draw(builder.module, address.type) for draw in (_pcg64_next_uint64, _pcg64_next_double)]
        return _generator(context, builder, address, *(builder.ptrtoint(draw, address.type) for draw in drawing))

    return _GENERATOR(words), generate


@intrinsic
def prefetched(context, array, index):
    """Prefetch the cache line of an item by its flat index."""

    def generate(context, builder, signature, arguments):
        given, place = arguments
        items = context.make_array(signature.args[0])(context, builder, given)
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        asking = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(items.data, [place]), byte)
        builder.call(asking, [address, flag(0), flag(3), flag(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return numba.types.none(array, index), generate


def _generator(context: Any, builder: Any, state: Any, next_uint64: Any, next_double: Any) -> Any:
    made = cgutils.create_struct_proxy(_GENERATOR)(context, builder)
    bits = cgutils.create_struct_proxy(_BITS)(context, builder)
    bits.state_address = bits.state = state
    bits.fnptr_next_uint64, bits.fnptr_next_double = next_uint64, next_double
    made.bit_generator = bits._getvalue()
    return made._getvalue()


def pcg64_words(rng: np.random.Generator) -> tuple[int, list[int]]:
    """(address, values) of the four words in which NumPy keeps a PCG64; (0, []) for another bit generator."""
    if type(rng.bit_generator) is not np.random.PCG64:
        return 0, []
    address = ctypes.c_void_p.from_address(rng.bit_generator.ctypes.state_address).value or 0
    return address, list((ctypes.c_uint64 * 4).from_address(address)) if address else []


def _inlined(module: Any, name: str, result: Any, word: Any) -> tuple[Any, Any]:
    """(a function of an address that is inlined where it is called, a builder of its body, or None if it has one)."""
    if name in module.globals:
        return module.globals[name], None
    function = ir.Function(module, ir.FunctionType(result, [word]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("alwaysinline")
    return function, ir.IRBuilder(function.append_basic_block())


def _pcg64_next_uint64(module: Any, word: Any) -> Any:
    """NumPy's `next_uint64` of a PCG64 in LLVM, the same bits, inlined so that the loop around keeps its registers.

    O'Neill 2014, XSL-RR: state <- state * multiplier + increment; the number is the halves of the state, xored and
    rotated by its first six bits. The state is the first two words at the address, the increment the others.
    """
    function, builder = _inlined(module, "dqucb_pcg64_next_uint64", word, word)
    if builder is None:
        return function
    whole = ir.IntType(128)
    half = ir.Constant(whole, 64)
    words = builder.inttoptr(function.args[0], word.as_pointer())
    places = [builder.gep(words, [ir.Constant(word, i)]) for i in range(4)]
    low, high, low_increment, high_increment = (builder.zext(builder.load(place), whole) for place in places)
    state = builder.or_(low, builder.shl(high, half))
    increment = builder.or_(low_increment, builder.shl(high_increment, half))
    state = builder.add(builder.mul(state, ir.Constant(whole, _PCG64_MULTIPLIER)), increment)
    low, high = builder.trunc(state, word), builder.trunc(builder.lshr(state, half), word)
    builder.store(low, places[0])
    builder.store(high, places[1])
    mixed, turn = builder.xor(high, low), builder.lshr(high, ir.Constant(word, 58))
    back = builder.and_(builder.neg(turn), ir.Constant(word, 63))
    builder.ret(builder.or_(builder.lshr(mixed, turn), builder.shl(mixed, back)))
    return function


def _pcg64_next_double(module: Any, word: Any) -> Any:
    """The first 53 bits of the same as a number in [0, 1)."""
    real = ir.DoubleType()
    function, builder = _inlined(module, "dqucb_pcg64_next_double", real, word)
    if builder is None:
        return function
    bits = builder.call(_pcg64_next_uint64(module, word), function.args)
    number = builder.uitofp(builder.lshr(bits, ir.Constant(word, 11)), real)
    builder.ret(builder.fmul(number, ir.Constant(real, 2.0**-53)))
    return function
