'use strict';
/** Names that have had a number since before names were used; those of today have none. */
const names = [
  'IndexSizeError',
  'DOMStringSizeError',
  'HierarchyRequestError',
  'WrongDocumentError',
  'InvalidCharacterError',
  'NoDataAllowedError',
  'NoModificationAllowedError',
  'NotFoundError',
  'NotSupportedError',
  'InUseAttributeError',
  'InvalidStateError',
  'SyntaxError',
  'InvalidModificationError',
  'NamespaceError',
  'InvalidAccessError',
  'ValidationError',
  'TypeMismatchError',
  'SecurityError',
  'NetworkError',
  'AbortError',
  'URLMismatchError',
  'QuotaExceededError',
  'TimeoutError',
  'InvalidNodeTypeError',
  'DataCloneError',
];

class DOMException extends Error {
  #name;

  /** @param options the name, or `{ name, cause }` */
  constructor(message, options = 'Error') {
    const isObject = typeof options === 'object' && options !== null;
    super(
      message === undefined ? '' : String(message),
      isObject && 'cause' in options ? { cause: options.cause } : undefined,
    );
    this.#name = String(isObject ? (options.name ?? 'Error') : options);
  }

  get name() {
    return this.#name;
  }

  get code() {
    return names.indexOf(this.#name) + 1;
  }

  get [Symbol.toStringTag]() {
    return 'DOMException';
  }
}

/** `InvalidStateError` is also `DOMException.INVALID_STATE_ERR`. */
for (const [index, name] of names.entries()) {
  const words = name.replace(/^DOMString/, 'Domstring').match(/[A-Z]+(?![a-z])|[A-Z][a-z]+/g);
  const constant = words
    .join('_')
    .toUpperCase()
    .replace(/_ERROR$/, '_ERR');
  for (const target of [DOMException, DOMException.prototype]) {
    Object.defineProperty(target, constant, { value: index + 1, enumerable: true });
  }
}

module.exports = { DOMException };
