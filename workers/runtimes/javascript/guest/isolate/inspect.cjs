'use strict';
/** How a value reads in a log line: strings as they are, errors with their stack, the rest much like JSON. */
function inspect(value) {
  try {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return describe(value);
    return render(value, []);
  } catch {
    return '[unreadable]';
  }
}

const describe = (error) => {
  const own = Object.keys(error);
  const extra = own.length === 0 ? '' : ` ${render({ ...error }, [error])}`;
  const cause = error.cause === undefined ? '' : `\n  [cause]: ${inspect(error.cause)}`;
  return `${error.stack || String(error)}${extra}${cause}`;
};

const maxDepth = 6;
const maxEntries = 200;

function render(value, above) {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return `[${value.name ? `Function: ${value.name}` : 'Function'}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (above.includes(value)) return '[Circular]';
  if (above.length >= maxDepth) return Array.isArray(value) ? '[Array]' : '[Object]';
  return renderObject(value, [...above, value]);
}

function renderObject(value, above) {
  const list = (items) => limited([...items].slice(0, maxEntries + 1).map((item) => render(item, above)));
  if (value instanceof Error) return describe(value);
  if (Object.hasOwn(webViews, value[Symbol.toStringTag])) return renderWeb(value, above);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (value instanceof RegExp) return String(value);
  if (Array.isArray(value)) return `[ ${list(value)} ]`;
  if (ArrayBuffer.isView(value)) return `${typeName(value)}(${value.byteLength} bytes)`;
  if (value instanceof Set) return `Set(${value.size}) { ${list(value)} }`;
  if (value instanceof Map) {
    const entries = [...value]
      .slice(0, maxEntries + 1)
      .map(([key, item]) => `${render(key, above)} => ${render(item, above)}`);
    return `Map(${value.size}) { ${limited(entries)} }`;
  }
  const fields = Object.keys(value).slice(0, maxEntries + 1);
  const body = limited(fields.map((key) => `${fieldName(key)}: ${render(value[key], above)}`));
  const name = typeName(value);
  return `${name === 'Object' ? '' : `${name} `}${body === '' ? '{}' : `{ ${body} }`}`;
}

/** Objects of the web keep what they hold in private fields: this is what is worth seeing of each. */
const pick =
  (...names) =>
  (value) =>
    Object.fromEntries(names.map((name) => [name, value[name]]));
const webViews = {
  Blob: pick('size', 'type'),
  File: pick('name', 'size', 'type'),
  FormData: Object.fromEntries,
  Headers: Object.fromEntries,
  Request: pick('method', 'url', 'bodyUsed'),
  Response: pick('status', 'statusText', 'url', 'bodyUsed'),
  URL: String,
  URLSearchParams: Object.fromEntries,
};

function renderWeb(value, above) {
  const tag = value[Symbol.toStringTag];
  const view = webViews[tag](value);
  return typeof view === 'string' ? view : `${tag} ${render(view, above)}`;
}

const limited = (texts) =>
  texts.length > maxEntries ? `${texts.slice(0, maxEntries).join(', ')}, …` : texts.join(', ');

const typeName = (value) => Object.getPrototypeOf(value)?.constructor?.name ?? 'Object';
const fieldName = (key) => (/^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key));

module.exports = { inspect };
