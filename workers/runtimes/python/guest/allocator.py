"""
Memory of the zygote: what is freed there is overwritten, so that no later run finds in it what an earlier one has said.
"""

import ctypes
import sys

_M_PERTURB = -6
# PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM and PYMEM_DOMAIN_OBJ of CPython's C interface.
_RAW, _MEM, _OBJ = 0, 1, 2


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ('ctx', 'malloc', 'calloc', 'realloc', 'free')]


def _allocator_of(domain):
    found = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(found))
    return found


def _is_pymalloc(own, raw):
    """Free-threaded builds (`t`) have an allocator that takes back nothing but its own; those for debugging have a context."""
    return 't' not in sys.abiflags and own.ctx is None and raw.ctx is None


class Overwriting:
    """
    Python keeps objects of up to 512 bytes in memory of its own and overwrites nothing that is freed there. While this is on,
    new objects of any size come from the C library, which overwrites what is given back to it. Python's own functions
    still free and resize: they pass on to the C library what is not theirs, so that older objects stay valid. Nothing
    happens where the C library is not glibc.
    """

    def __init__(self):
        self._mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
        self._usual = {domain: _allocator_of(domain) for domain in (_MEM, _OBJ)}
        self._raw = _allocator_of(_RAW)

    def begin(self):
        if self._mallopt is None:
            return
        self._mallopt(_M_PERTURB, 0xFF)
        raw = self._raw
        for domain, own in self._usual.items():
            if _is_pymalloc(own, raw):
                mixed = _Allocator(None, raw.malloc, raw.calloc, own.realloc, own.free)
                ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(mixed))

    def end(self):
        """In the process of a run: everything as any Python process has it."""
        if self._mallopt is None:
            return
        for domain, own in self._usual.items():
            ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(own))
        self._mallopt(_M_PERTURB, 0)


overwriting = Overwriting()
