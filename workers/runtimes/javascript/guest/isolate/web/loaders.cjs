'use strict';
const outside = require('./outside.cjs');

/**
 * The loaders of the groups of globals. Bundled apart from the rest: a run that touches none of them evaluates none.
 */
const loaders = {
  domException: () => require('./dom-exception.cjs'),
  events: () => require('./events.cjs'),
  abort: () => require('./abort.cjs'),
  base64: () => require('./base64.cjs'),
  blob: () => require('./blob.cjs'),
  formData: () => require('./form-data.cjs'),
  headers: () => require('./headers.cjs'),
  urlSearchParams: () => require('./url-search-params.cjs'),
  fetch: () => ({
    ...require('./url.cjs'),
    ...require('./request.cjs'),
    ...require('./response.cjs'),
    ...require('./fetch.cjs'),
  }),
  crypto: () => require('./crypto.cjs'),
  encoding: () => require('@exodus/bytes/encoding-lite.js'),
  buffer: () => require('./buffer.cjs'),
  structuredClone: () => require('./structured-clone.cjs'),
  performance: () => require('./performance.cjs'),
  streams: () => require('./streams.cjs'),
  incoming: () => require('./incoming.cjs'),
  outgoing: () => require('./outgoing.cjs'),
};

/** @param ways see `outside.cjs` */
function loaderOf(group, ways) {
  Object.assign(outside, ways);
  return loaders[group];
}

module.exports = { loaderOf };
