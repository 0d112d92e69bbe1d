'use strict';
const { Blob, File, bytesOf } = require('./blob.cjs');
const { concat, decode, encode, latin1 } = require('./bytes.cjs');
const { FormData } = require('./form-data.cjs');

const crlf = (text) => text.replaceAll(/\r\n?|\n/g, '\r\n');
const quoted = (text) => text.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22');

/** @returns `[bytes, content type]` of a form in multipart/form-data */
function encodeForm(form) {
  const boundary = `----plinth-form-${Math.random().toString(36).slice(2)}${Math.random().toString(36).slice(2)}`;
  const chunks = [];
  for (const [name, value] of form) {
    const start = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(crlf(name))}"`;
    if (typeof value === 'string') {
      chunks.push(encode(`${start}\r\n\r\n${crlf(value)}\r\n`));
    } else {
      const type = value.type || 'application/octet-stream';
      chunks.push(encode(`${start}; filename="${quoted(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`));
      chunks.push(bytesOf(value), encode('\r\n'));
    }
  }
  chunks.push(encode(`--${boundary}--\r\n`));
  return [concat(chunks), `multipart/form-data; boundary=${boundary}`];
}

/** @throws TypeError for a body that is no form */
function decodeForm(bytes, contentType) {
  const essence = contentType.split(';', 1)[0].trim().toLowerCase();
  if (essence === 'application/x-www-form-urlencoded') return decodeUrlEncoded(bytes);
  const [, quotedName, name] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType) ?? [];
  const boundary = quotedName ?? name;
  if (essence !== 'multipart/form-data' || boundary === undefined) throw noForm('its type is no form’s');
  const form = new FormData();
  for (const part of partsOf(bytes, `--${boundary}`)) addPart(form, part);
  return form;
}

function decodeUrlEncoded(bytes) {
  const { URLSearchParams } = require('./url-search-params.cjs');
  const form = new FormData();
  for (const [name, value] of new URLSearchParams(decode(bytes))) form.append(name, value);
  return form;
}

/** Header text and bytes of each part. It searches in a text of one character a byte: engines do that fastest. */
function* partsOf(bytes, delimiter) {
  const all = latin1(bytes);
  let at = all.indexOf(delimiter);
  while (at !== -1) {
    const start = at + delimiter.length;
    if (all.startsWith('--', start)) return;
    const headEnd = all.indexOf('\r\n\r\n', start);
    at = all.indexOf(`\r\n${delimiter}`, headEnd);
    if (headEnd === -1 || at === -1) break;
    yield { head: decode(bytes.subarray(start, headEnd)), body: bytes.subarray(headEnd + 4, at) };
    at += 2;
  }
  throw noForm('it ends before its last boundary');
}

function addPart(form, { head, body }) {
  const disposition = /^content-disposition:\s*form-data\s*;(.*)$/im.exec(head)?.[1];
  const name = parameter(disposition, 'name');
  if (name === undefined) throw noForm('a part has no name');
  const filename = parameter(disposition, 'filename');
  if (filename === undefined) return void form.append(name, decode(body));
  const type = /^content-type:\s*(.*?)\s*$/im.exec(head)?.[1] ?? 'text/plain';
  form.append(name, new File([new Blob([body])], filename, { type }));
}

function parameter(disposition = '', name) {
  const value = new RegExp(`(?:^|;)\\s*${name}="([^"]*)"`, 'i').exec(disposition)?.[1];
  return value?.replaceAll(/%0a/gi, '\n').replaceAll(/%0d/gi, '\r').replaceAll('%22', '"');
}

const noForm = (why) => new TypeError(`Failed to parse body as FormData: ${why}`);

module.exports = { decodeForm, encodeForm };
