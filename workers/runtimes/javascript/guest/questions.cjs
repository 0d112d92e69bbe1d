'use strict';
const { randomFillSync, randomUUID } = require('node:crypto');

const maxRandomBytes = 65_536;
const maxUrlLength = 4 * 1024 * 1024;
const urlParts = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port'].concat([
  'pathname',
  'search',
  'hash',
]);

/** The synchronous calls of an isolate: answered from the question alone, by a primitive or a buffer. */
const answers = {
  random: (length) => {
    const isSane = Number.isInteger(length) && length > 0 && length <= maxRandomBytes;
    return isSane ? randomFillSync(new ArrayBuffer(length)) : null;
  },
  uuid: () => randomUUID(),
  url: (text, base) => {
    if (!isShort(text) || !(base === null || isShort(base))) return null;
    const url = URL.parse(text, base ?? undefined);
    return url === null ? null : partsOf(url);
  },
  'url.set': (href, name, value) => {
    if (!isShort(href) || !isShort(value) || !urlParts.includes(name) || name === 'origin') return null;
    const url = URL.parse(href);
    if (url === null) return null;
    url[name] = value;
    return partsOf(url);
  },
};

const isShort = (text) => typeof text === 'string' && text.length <= maxUrlLength;
const partsOf = (url) => JSON.stringify(Object.fromEntries(urlParts.map((name) => [name, url[name]])));

/** Never throws: an error of this side has no business in an isolate. */
function answerQuestion(question, ...args) {
  try {
    return Object.hasOwn(answers, question) ? answers[question](...args) : null;
  } catch {
    return null;
  }
}

module.exports = { answerQuestion };
