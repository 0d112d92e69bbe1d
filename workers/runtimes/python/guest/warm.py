"""
What the zygote has imported, no run has to. At first only what nearly every function needs: a waiting zygote costs memory.
Modules that a function's text names follow before its first run, if they are in this list: of the standard library or known
to start no threads and to open nothing when they are imported.
"""

import importlib
import re

_KNOWN = frozenset(
    """
    asyncio bisect calendar collections concurrent.futures contextlib copy csv dataclasses difflib email.message email.utils enum
    fractions gzip hashlib heapq hmac html html.parser http.client http.cookies inspect io ipaddress itertools logging math
    numbers operator pathlib pickle queue random re secrets shutil socket sqlite3 ssl statistics string struct subprocess
    tempfile textwrap threading time typing unicodedata urllib.error urllib.parse urllib.request uuid xml.etree.ElementTree
    zipfile zlib zoneinfo requests httpx yaml dateutil jinja2 jwt bs4
    """.split()
)
_IMPORT = re.compile(r'^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import|import[ \t]+([\w., \t]+))', re.MULTILINE)


def import_for(source):
    """Imports what a text names. True when anything was tried that may have changed the process."""
    wanted = _names(source) & _KNOWN
    for name in wanted:
        try:
            importlib.import_module(name)
        except Exception:
            # Not on this machine; the function is told when it asks for it.
            pass
    return bool(wanted)


def _names(source):
    names = set()
    for origin, listed in _IMPORT.findall(source):
        for name in [origin] if origin else listed.split(','):
            names.update(_with_parents(name.split()[0]) if name.strip() else ())
    if 'async def' in source:
        names.add('asyncio')
    return names


def _with_parents(name):
    parts = name.split('.')
    return {'.'.join(parts[:count]) for count in range(1, len(parts) + 1)}
