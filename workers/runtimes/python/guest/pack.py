"""Functions of several files: modules are imported from memory, other files lie in the folder of the run."""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import marshal
import os
import sys

# Of source that is compiled ahead of the first run; what a run imports beyond that is compiled in each.
_MAX_AHEAD = 4 * 1024 * 1024
_INIT = '/__init__.py'


def _module_name(path):
    return (path[: -len(_INIT)] if path.endswith(_INIT) else path[: -len('.py')]).replace('/', '.')


class Pack:
    def __init__(self, text, entry):
        self._size = len(text)
        self.files = json.loads(text)
        self.entry = entry
        self.modules = {_module_name(path): path for path in self.files if path.endswith('.py')}
        # A folder without an __init__.py is a package, too.
        self.folders = {_parent for name in self.modules for _parent in _parents(name)}

    def __len__(self):
        return self._size

    def compile(self):
        """
        The code of the entry and of what it may import, as bytes. Found by the names in the code, before any of it runs: nothing
        of a run may decide what the next one executes.
        """
        done, waiting, size = {}, [self.entry], 0
        while waiting and size < _MAX_AHEAD:
            path = waiting.pop()
            if path in done:
                continue
            try:
                code = compile(self.files[path], path, 'exec', dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError):
                if path == self.entry:
                    raise
                # Told to whoever imports it, if anybody does.
                continue
            size += len(self.files[path])
            done[path] = marshal.dumps(code)
            waiting += self._imported_by(path, code)
        return marshal.dumps(done)

    def _imported_by(self, path, code):
        package = _package_of(path)
        bases = {''} | {parent + '.' for parent in _parents(package + '.x')}
        names = _names_in(code)
        bases |= {base + name + '.' for name in names for base in bases if base + name in self.folders}
        found = {base + name for name in names for base in bases if base + name in self.modules}
        return [self.modules[each] for name in found for each in (name, *_parents(name)) if each in self.modules]

    def load(self, compiled):
        """Runs the entry; returns its module."""
        self._lay_out()
        finder = _Finder(self, compiled)
        sys.meta_path.insert(0, finder)
        sys.path.insert(0, os.getcwd())
        name = _module_name(self.entry)
        spec = finder.find_spec(name)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = sys.modules['__main__'] = module
        spec.loader.exec_module(module)
        return module

    def _lay_out(self):
        for path, text in self.files.items():
            if path.endswith('.py'):
                continue
            folder = os.path.dirname(path)
            if folder:
                os.makedirs(folder, exist_ok=True)
            with open(path, 'w', encoding='utf-8', newline='') as file:
                file.write(text)


def _parents(name):
    parts = name.split('.')
    return ['.'.join(parts[:count]) for count in range(1, len(parts))]


def _package_of(path):
    return os.path.dirname(path).replace('/', '.')


def _names_in(code):
    names, waiting = set(), [code]
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting += [const for const in code.co_consts if isinstance(const, type(code))]
    return names


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, pack, compiled):
        self._pack = pack
        self._compiled = compiled

    def find_spec(self, name, path=None, target=None):
        file = self._pack.modules.get(name)
        if file is not None:
            return _spec_of(name, file, _Loader(self._pack, self._compiled, file))
        if name in self._pack.folders:
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations.append(os.path.abspath(name.replace('.', '/')))
            return spec
        return None


def _spec_of(name, file, loader):
    spec = importlib.machinery.ModuleSpec(name, loader, origin=loader.path, is_package=file.endswith(_INIT))
    spec.has_location = True
    if spec.submodule_search_locations is not None:
        spec.submodule_search_locations.append(os.path.dirname(loader.path))
    return spec


class _Loader(importlib.abc.InspectLoader):
    def __init__(self, pack, compiled, file):
        self._file = file
        self._text = pack.files[file]
        self._code = compiled.get(file)
        self.path = os.path.abspath(file)

    def exec_module(self, module):
        # Stacks show the lines of the file, under the path that its author knows.
        linecache.cache[self._file] = (lambda: self._text,)
        exec(self.get_code(module.__name__), module.__dict__)

    def get_code(self, fullname):
        if self._code is not None:
            return marshal.loads(self._code)
        return compile(self._text, self._file, 'exec', dont_inherit=True)

    def get_source(self, fullname):
        return self._text

    def is_package(self, fullname):
        return self._file.endswith(_INIT)

    def get_filename(self, fullname=None):
        return self.path

    def get_data(self, path):
        with open(path, 'rb') as file:
            return file.read()

    def get_resource_reader(self, fullname):
        from importlib.readers import FileReader

        return FileReader(self)
