"""The HTTP request of a run (`sdk.request`), and the response that a handler may return (`sdk.Response`)."""

import base64
import json
import re
import urllib.parse

import values

# A body up to this goes with the result; a longer one goes ahead of it in pieces.
_WHOLE_BYTES = 256 * 1024
_PIECE_BYTES = 128 * 1024
_FORM = re.compile(r'\s*(application/x-www-form-urlencoded|multipart/form-data)\s*(?:;|$)', re.IGNORECASE)


class Headers(dict):
    """A mapping whose names are found in whatever case."""

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class UploadedFile:
    """A file of a form."""

    def __init__(self, filename, content_type, content):
        self.filename = filename
        self.content_type = content_type
        self.content = content

    def text(self):
        return self.content.decode('utf-8', 'replace')

    def __repr__(self):
        return 'UploadedFile(%r, %r, %d bytes)' % (self.filename, self.content_type, len(self.content))


def _several(pairs):
    """Fields by their names, those of one name as a list."""
    fields = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


class Request:
    def __init__(self, given, payload_text):
        self._given = given
        self._payload_text = payload_text
        self.method = given['method']
        self.path = given['path']
        self.ip = given['ip']
        self.headers = Headers(given['headers'])
        self.query = _several(urllib.parse.parse_qsl(given['query'], keep_blank_values=True))
        path, query = given['path'], given['query']
        self.url = given['base'] + ('' if path == '/' else path) + ('?' + query if query else '')
        self._raw_body = None

    @property
    def raw_body(self):
        if self._raw_body is None:
            self._raw_body = self._bytes()
        return self._raw_body

    def _bytes(self):
        """JSON and text were decoded strictly: encoded again they have the bytes that came."""
        kind = self._given['kind']
        if kind == 'none':
            return b''
        if kind == 'bytes':
            return base64.b64decode(self._given['body'])
        text = json.loads(self._payload_text) if kind == 'text' else self._payload_text
        return text.encode()

    def text(self):
        return self.raw_body.decode('utf-8', 'replace')

    def json(self):
        return json.loads(self.raw_body)

    def form_data(self):
        """Fields by name: text, `UploadedFile`, or a list of them. Raises ValueError for what is no form."""
        return _several(_form(self.raw_body, self.headers.get('content-type', '')))

    def payload(self):
        """What the handler gets beside the sdk: of a form its fields that are text."""
        if self._given['kind'] != 'bytes' or not _FORM.match(self.headers.get('content-type', '')):
            return json.loads(self._payload_text)
        try:
            pairs = _form(self.raw_body, self.headers.get('content-type', ''))
        except ValueError:
            return None
        return _several([(name, value) for name, value in pairs if isinstance(value, str)])


def _form(body, content_type):
    found = _FORM.match(content_type)
    if found is None:
        raise ValueError('The body is not a form: its type is %r.' % content_type[:100])
    if found[1].lower() == 'application/x-www-form-urlencoded':
        return urllib.parse.parse_qsl(body.decode('utf-8', 'replace'), keep_blank_values=True)
    boundary = re.search(r';\s*boundary=(?:"([^"]+)"|([^\s;]+))', content_type, re.IGNORECASE)
    if boundary is None:
        raise ValueError('The form has no boundary.')
    return list(_parts(body, ('--' + (boundary[1] or boundary[2])).encode()))


def _parts(body, delimiter):
    at = body.find(delimiter)
    while at != -1:
        start = at + len(delimiter)
        if body.startswith(b'--', start):
            return
        head_end = body.find(b'\r\n\r\n', start)
        at = body.find(b'\r\n' + delimiter, head_end)
        if head_end == -1 or at == -1:
            break
        yield _part(body[start:head_end].decode('utf-8', 'replace'), body[head_end + 4 : at])
        at += 2
    raise ValueError('The form ends before its last boundary.')


def _part(head, content):
    disposition = re.search(r'^content-disposition:\s*form-data\s*;(.*)$', head, re.IGNORECASE | re.MULTILINE)
    name = _parameter(disposition, 'name')
    if name is None:
        raise ValueError('A part of the form has no name.')
    filename = _parameter(disposition, 'filename')
    if filename is None:
        return name, content.decode('utf-8', 'replace')
    kind = re.search(r'^content-type:[ \t]*([^\r\n]*)', head, re.IGNORECASE | re.MULTILINE)
    return name, UploadedFile(filename, kind[1].strip() if kind else 'text/plain', content)


def _parameter(disposition, name):
    found = disposition and re.search(r'(?:^|;)\s*%s="([^"]*)"' % name, disposition[1], re.IGNORECASE)
    if not found:
        return None
    return re.sub('%0a', '\n', re.sub('%0d', '\r', found[1], flags=re.IGNORECASE), flags=re.IGNORECASE).replace('%22', '"')


class Response:
    """
    The answer to a request: text, bytes, None, a JSON value (dict or list), or a generator of text and bytes, which is
    sent while it runs.
    """

    def __init__(self, body=None, status=200, headers=None):
        self.body = body
        self.status = status
        pairs = headers.items() if hasattr(headers, 'items') else headers or ()
        self.headers = [(str(name), str(value)) for name, value in pairs]

    def _default_type(self, kind):
        if not any(name.lower() == 'content-type' for name, _ in self.headers):
            self.headers.append(('content-type', kind))


def _bytes_of(chunk):
    if isinstance(chunk, str):
        return chunk.encode()
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    raise TypeError('A response is made of text and bytes, not of %s.' % type(chunk).__name__)


def _content(response):
    """The body as bytes, or None for one that is streamed."""
    body = response.body
    if body is None:
        return b''
    if isinstance(body, str):
        response._default_type('text/plain; charset=utf-8')
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, (dict, list)):
        response._default_type('application/json')
        return values.result_text(body).encode()
    return None


def _whole(head, content):
    try:
        return json.dumps(dict(head, body=content.decode())), 'text'
    except UnicodeDecodeError:
        return json.dumps(dict(head, body=base64.b64encode(content).decode())), 'base64'


def _send(call, content):
    for at in range(0, len(content), _PIECE_BYTES):
        call('response.write', {'chunk': base64.b64encode(content[at : at + _PIECE_BYTES]).decode()})


def answer(response, call):
    """(result text, form) of a response whose body is no asynchronous generator."""
    content = _content(response)
    head = {'status': response.status, 'headers': response.headers}
    if content is not None and len(content) <= _WHOLE_BYTES:
        return _whole(head, content)
    call('response.start', head)
    for chunk in [content] if content is not None else response.body:
        _send(call, _bytes_of(chunk))
    call('response.end', {})
    return 'null', 'sent'


async def answer_async(response, call):
    """The same, in the event loop of the handler: there its asynchronous generators belong."""
    if not hasattr(response.body, '__aiter__'):
        return answer(response, call)
    call('response.start', {'status': response.status, 'headers': response.headers})
    async for chunk in response.body:
        _send(call, _bytes_of(chunk))
    call('response.end', {})
    return 'null', 'sent'
