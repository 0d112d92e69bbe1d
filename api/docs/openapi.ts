import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { errorStatus } from '#lib/errors.ts';
import type { Access } from '#api/access.ts';
import type { Endpoint } from '#api/endpoint.ts';
import { hoisted, inlined } from './components.ts';
import { type PathValue, needOf, pathValueOf } from './example-needs.ts';
import { areaName, exampleOf } from './examples.ts';

type Json = Record<string, unknown>;

const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8')) as {
  version: string;
};

// Clients send and see the input side of each schema (a date is text there).
const schemaOf = (schema: z.ZodType, io: 'input' | 'output' = 'input'): Json => {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return json;
};

/** @param more what else is said of a parameter */
const parametersOf = (
  schema: z.ZodType | undefined,
  where: 'path' | 'query',
  more: (name: string) => PathValue = () => ({}),
): Json[] => {
  if (!(schema instanceof z.ZodObject)) return [];
  const { properties = {}, required = [] } = schemaOf(schema) as { properties?: Json; required?: string[] };
  return Object.entries(properties).map(([name, json]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...more(name),
    schema: json,
  }));
};

const security: Readonly<Record<Access['kind'], Json[]>> = {
  everyone: [],
  'signed-in': [{ accessToken: [] }],
  project: [{ accessToken: [] }],
  organization: [{ accessToken: [] }],
  key: [{ apiKey: [] }, { xApiKey: [] }, { apiKeyBearer: [] }],
  operator: [{ opsToken: [] }],
};

const needs = (access: Access): string => {
  switch (access.kind) {
    case 'everyone':
      return 'Open to everyone.';
    case 'signed-in':
      return 'Needs an access token.';
    case 'project':
      return `Needs the role ${access.role} in the project’s organization.`;
    case 'organization':
      return `Needs the role ${access.role} in the organization (header X-Org-Id, else your own).`;
    case 'key':
      return `Needs an API key: ${access.keys.join(' or ')}.`;
    case 'operator':
      return 'Needs the operators’ token.';
  }
};

const idempotencyKey = { $ref: '#/components/parameters/IdempotencyKey' };
const prefer = { $ref: '#/components/parameters/Prefer' };
const orgId = { $ref: '#/components/parameters/OrgId' };

/** The changes of files are in the projects' databases, and each names what it makes (decision 068). */
const takesKey = ({ method, access, errors }: Endpoint): boolean =>
  method === 'post' && access.kind !== 'everyone' && errors !== 'storage';

const headersOf = (endpoint: Endpoint): Json[] => [
  ...(endpoint.access.kind === 'organization' ? [orgId] : []),
  ...(takesKey(endpoint) ? [idempotencyKey] : []),
  ...(endpoint.work.kind === 'job' ? [prefer] : []),
];

const responsesOf = ({ status, response, mediaType, summary, work }: Endpoint): Json => ({
  [status]: {
    description: summary,
    ...(response && {
      content: {
        [mediaType.split(';', 1)[0] ?? mediaType]: { schema: schemaOf(response) },
        ...(work.kind === 'job' && work.streamed && { 'text/event-stream': { schema: { type: 'string' } } }),
      },
    }),
  },
  ...(work.kind === 'job' && { 202: { $ref: '#/components/responses/Accepted' } }),
  default: { $ref: '#/components/responses/Error' },
});

// An empty body counts as an empty object.
const requestBodyOf = (endpoint: Endpoint, body: z.ZodType): Json => {
  const schema = schemaOf(body);
  const whole = inlined(schema);
  const example = exampleOf(endpoint, whole);
  const content = { schema, ...(example !== undefined && { example }) };
  const need = needOf(endpoint);
  return {
    ...(need !== undefined && { description: need }),
    required: Array.isArray(whole['required']),
    content: { 'application/json': content },
  };
};

const operationId = ({ method, path: route }: Endpoint): string =>
  [method, ...route.split('/').map((part) => part.replaceAll(/[{}]/g, ''))]
    .filter(Boolean)
    .join('_')
    .replaceAll(/[^\w]/g, '_');

const operationOf = (endpoint: Endpoint, all: readonly Endpoint[]): Json => ({
  operationId: operationId(endpoint),
  tags: [areaName(endpoint.area)],
  summary: endpoint.summary,
  description: needs(endpoint.access),
  security: security[endpoint.access.kind],
  ...('role' in endpoint.access && { 'x-role': endpoint.access.role }),
  parameters: [
    ...parametersOf(endpoint.params, 'path', (name) => pathValueOf(endpoint.path, name, all)),
    ...parametersOf(endpoint.query, 'query'),
    ...headersOf(endpoint),
  ],
  ...(endpoint.body && { requestBody: requestBodyOf(endpoint, endpoint.body) }),
  responses: responsesOf(endpoint),
});

const errorSchema = {
  type: 'object',
  required: ['code', 'message', 'details', 'hint', 'request_id'],
  properties: {
    code: { type: 'string', enum: Object.keys(errorStatus) },
    message: { type: 'string' },
    details: { description: 'For validation_failed an array of {path, message}.' },
    hint: { type: ['string', 'null'] },
    request_id: { type: 'string' },
  },
};

const header = (name: string, description: string): Json => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string' },
});

const components = {
  securitySchemes: {
    accessToken: { type: 'http', scheme: 'bearer', description: 'The access_token of sign-up or login.' },
    apiKey: { type: 'apiKey', in: 'header', name: 'apikey', description: 'A project’s API key.' },
    xApiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'A project’s API key.' },
    apiKeyBearer: { type: 'http', scheme: 'bearer', description: 'A project’s API key.' },
    opsToken: { type: 'http', scheme: 'bearer', description: 'The operators’ token (PLINTH_OPS_TOKEN).' },
  },
  schemas: { Error: errorSchema },
  parameters: {
    IdempotencyKey: header(
      'Idempotency-Key',
      'The same key and body within 24 hours is done once; the answer is replayed.',
    ),
    Prefer: header('Prefer', '`respond-async` answers 202 at once; `wait=N` waits at most N seconds (60 at most).'),
    OrgId: header('X-Org-Id', 'The organization to act on; left out: your own.'),
  },
  responses: {
    Accepted: {
      description: 'The job goes on; Location is where to ask.',
      headers: { Location: { schema: { type: 'string' } } },
      content: {
        'application/json': {
          schema: { type: 'object', properties: { job_id: { type: 'string' }, status: { const: 'queued' } } },
        },
      },
    },
    Error: {
      description: 'What went wrong: a stable code and words for people.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  },
};

/** The OpenAPI 3.1 document of a list of endpoints. */
export const openapiOf = (endpoints: readonly Endpoint[]): Json => {
  const paths: Record<string, Json> = {};
  for (const endpoint of endpoints)
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: operationOf(endpoint, endpoints) };
  const { document, schemas } = hoisted(paths);
  return {
    openapi: '3.1.0',
    info: { title: 'plinth', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/' }],
    tags: [...new Set(endpoints.map(({ area }) => areaName(area)))].map((name) => ({ name })),
    paths: document,
    components: { ...components, schemas: { ...components.schemas, ...schemas } },
  };
};
