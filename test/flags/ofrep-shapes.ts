import { type Schema, Validator } from '@cfworker/json-schema';

/**
 * The answers of the OpenFeature Remote Evaluation Protocol 0.3 as its OpenAPI document has them, written down here
 * because no package carries the document. There, `oneOf` of the kinds of values refuses all that have a value (a flag
 * that leaves its value to the client has no fields, so that every flag is one, too): here it is `anyOf`.
 */

const metadata = {
  type: 'object',
  additionalProperties: { oneOf: ['boolean', 'string', 'number'].map((type) => ({ type })) },
};

const success = {
  type: 'object',
  required: ['key', 'reason'],
  properties: {
    key: { type: 'string' },
    reason: { enum: ['STATIC', 'TARGETING_MATCH', 'SPLIT', 'DISABLED', 'UNKNOWN'] },
    variant: { type: 'string' },
    metadata,
  },
  anyOf: [
    ...['boolean', 'string', 'integer', 'number', 'object'].map((type) => ({
      properties: { value: { type } },
      required: ['value'],
    })),
    { not: { required: ['value'] } },
  ],
} as const;

const failure = (codes: readonly string[]) => ({
  type: 'object',
  required: ['key', 'errorCode'],
  properties: { key: { type: 'string' }, errorCode: { enum: codes }, errorDetails: { type: 'string' }, metadata },
});

const evaluationFailure = failure(['PARSE_ERROR', 'TARGETING_KEY_MISSING', 'INVALID_CONTEXT', 'GENERAL']);

const eventStream = {
  type: 'object',
  required: ['type'],
  oneOf: [
    { required: ['url'], not: { required: ['endpoint'] } },
    { required: ['endpoint'], not: { required: ['url'] } },
  ],
  properties: {
    type: { type: 'string' },
    url: { type: 'string', format: 'uri' },
    inactivityDelaySec: { type: 'integer', minimum: 1 },
  },
};

const schemas = {
  'single 200': success,
  'single 400': evaluationFailure,
  'single 404': failure(['FLAG_NOT_FOUND']),
  'bulk 200': {
    type: 'object',
    required: ['flags'],
    properties: {
      flags: { type: 'array', items: { oneOf: [success, evaluationFailure] } },
      metadata,
      eventStreams: { type: 'array', items: eventStream },
    },
  },
  'bulk 400': {
    type: 'object',
    required: ['errorCode'],
    properties: { errorCode: { type: 'string' }, errorDetails: { type: 'string' } },
  },
  event: {
    type: 'object',
    required: ['type'],
    properties: { type: { type: 'string' }, etag: { type: 'string' } },
  },
};

/** The parts of an answer that do not fit the protocol; null: all of it fits. */
export const ofrepFault = (shape: keyof typeof schemas, value: unknown): string | null => {
  const { valid, errors } = new Validator(schemas[shape] as unknown as Schema, '2020-12', false).validate(value);
  return valid ? null : JSON.stringify(errors.slice(0, 3));
};
