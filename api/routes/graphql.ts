import {
  type GraphqlAnswer,
  type GraphqlDeps,
  MutationRefused,
  createGraphql,
} from '#domain/data-api/graphql/graphql.ts';
import { failure } from '#domain/data-api/graphql/model.ts';
import { type AnswerBody, jsonObject } from '#domain/data-api/answer-body.ts';
import { DataError } from '#domain/data-api/errors.ts';
import { type DataKey, dataKeyOf } from '#domain/data-api/idempotency.ts';
import { type Fields, isFields } from '#domain/data-api/graphql/inputs.ts';
import { TooManyValues, parseExactJson } from '#lib/json.ts';
import { withKey } from '../access.ts';
import type { BaseCall, DataCall } from '../call.ts';
import { type Endpoint, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';

const legacyType = 'application/json';
const ownType = 'application/graphql-response+json';

/** A request that is not GraphQL: nothing of it was read. Source: GraphQL over HTTP, sections 4 and 5. */
class NotGraphql extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const invalid = (message: string): NotGraphql => new NotGraphql(400, 'validation_failed', message);

interface Parameters {
  readonly query: string;
  readonly variables: Fields;
  readonly operationName: string | null;
}

const mapOf = (value: unknown, name: string): Fields => {
  const found = value ?? {};
  if (!isFields(found)) throw invalid(`"${name}" is not a map.`);
  return found;
};

const parametersOf = (given: Fields): Parameters => {
  const { query, operationName = null } = given;
  if (typeof query !== 'string') throw invalid('"query" is missing, or not a string.');
  if (operationName !== null && typeof operationName !== 'string') throw invalid('"operationName" is not a string.');
  mapOf(given['extensions'], 'extensions');
  return { query, operationName: operationName || null, variables: mapOf(given['variables'], 'variables') };
};

/** Values of a text whose numbers are kept as they were written: 40 ms of the event loop. */
const maxExactValues = 50_000;

const parsedJson = (text: string, what: string): unknown => {
  try {
    return parseExactJson(text, maxExactValues);
  } catch (error) {
    if (error instanceof TooManyValues)
      throw invalid(
        `${what} has more than ${maxExactValues} values, and numbers with fractions, exponents or over 15 digits among them: send fewer at a time.`,
      );
    throw invalid(`${what} is not JSON.`);
  }
};

const checkType = (type: string): void => {
  const [name = '', ...parameters] = type.toLowerCase().split(';');
  const charset = parameters.map((one) => one.trim()).find((one) => one.startsWith('charset='));
  if (name.trim() !== legacyType || (charset && !/^charset="?utf-?8"?$/.test(charset)))
    throw new NotGraphql(415, 'unsupported_media_type', 'The body has to be application/json in UTF-8.');
};

const textOf = (body: Buffer): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw invalid('The body is not UTF-8.');
  }
};

/** With the key under which a mutation is made once. */
interface Posted extends Parameters {
  readonly key?: DataKey;
}

const posted = async (request: RawRequest, { caller }: DataCall): Promise<Posted> => {
  checkType(request.header('content-type'));
  const bytes = await request.body();
  const body = parsedJson(textOf(bytes), 'The body');
  if (!isFields(body)) throw invalid('The body is not a JSON object.');
  const header = request.header('idempotency-key');
  if (header === '') return parametersOf(body);
  return { ...parametersOf(body), key: dataKeyOf(header, caller, [request.method, request.path, bytes]) };
};

const queryParametersOf = ({ queryText }: RawRequest): Parameters => {
  const query = new URLSearchParams(queryText);
  const json = (name: string): unknown => {
    const text = query.get(name);
    return text === null || text === '' ? undefined : parsedJson(text, `"${name}"`);
  };
  return parametersOf({
    query: query.get('query') ?? undefined,
    operationName: query.get('operationName'),
    variables: json('variables'),
    extensions: json('extensions'),
  });
};

interface Range {
  readonly type: string;
  readonly quality: number;
}

const rangesOf = (accept: string): Range[] =>
  accept.split(',').map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const quality = parameters.find((one) => one.startsWith('q='))?.slice(2);
    return { type, quality: quality === undefined ? 1 : Number(quality) || 0 };
  });

/** The media type of the answer: GraphQL's own only for those who ask for it by name. */
const answerType = (accept: string): string => {
  const own = rangesOf(accept).find(({ type }) => type === ownType)?.quality ?? 0;
  const legacy = rangesOf(accept).find(({ type }) => type === legacyType)?.quality ?? 0;
  return own > 0 && own >= legacy ? ownType : legacyType;
};

const bodyOf = ({ data, errors }: Pick<GraphqlAnswer, 'data' | 'errors'>): AnswerBody =>
  jsonObject([
    ...(errors.length > 0 ? [['errors', JSON.stringify(errors)] as const] : []),
    ...(data === null ? [] : [['data', data] as const]),
  ]);

/** A document that was not executed is 400 to clients that accept GraphQL's own media type, and 200 to the others. */
const replyOf = (answer: GraphqlAnswer, type: string): RawReply =>
  new RawReply(bodyOf(answer), `${type}; charset=utf-8`, answer.data === null && type === ownType ? 400 : 200);

const refusal = (error: NotGraphql, type: string): RawReply => {
  const body = bodyOf({ data: null, errors: [failure(error.code, error.message)] });
  return new RawReply(body, `${type}; charset=utf-8`, error.status);
};

const graphql = createGraphql();

const about = (request: RawRequest, { caller }: DataCall) =>
  // Policies may ask for them; where there are none, they cost a statement.
  caller.role === 'service'
    ? {}
    : { request: { method: request.method, path: request.path, headers: request.headersJson() } };

type Call = BaseCall & DataCall;

const answer = async (request: RawRequest, call: Call, type: string): Promise<RawReply> => {
  const readOnly = request.method !== 'POST';
  const parameters: Posted = readOnly ? queryParametersOf(request) : await posted(request, call);
  const more = { caller: call.caller, readOnly, signal: request.signal, ...about(request, call) };
  const deps: GraphqlDeps = call.deps;
  const answered = await graphql({ ...parameters, ...more }, deps);
  if (answered.replayed) call.setHeader('Idempotent-Replayed', 'true');
  // The change is made; what is not fetched soon is swept later.
  if (answered.wrote) call.deps.events.markDirty(call.caller.projectId).catch(() => undefined);
  return replyOf(answered, type);
};

const handle = async (request: RawRequest, call: Call): Promise<RawReply> => {
  const type = answerType(request.header('accept'));
  try {
    return await answer(request, call, type);
  } catch (error) {
    if (error instanceof NotGraphql) return refusal(error, type);
    // The scope of its Idempotency-Key.
    if (error instanceof DataError) return refusal(new NotGraphql(error.status, error.code, error.message), type);
    if (!(error instanceof MutationRefused)) throw error;
    call.setHeader('Allow', 'POST');
    return refusal(new NotGraphql(405, 'method_not_allowed', error.message), type);
  }
};

const paths = ['/api/graphql', '/p/{ref}/graphql/v1', '/p/{ref}/graphql'];

const at = (path: string, method: 'get' | 'post'): Endpoint =>
  rawEndpoint({
    method,
    path,
    area: 'data',
    summary:
      method === 'post'
        ? 'GraphQL over the tables of the project'
        : 'GraphQL over the tables of the project; queries only',
    access: withKey('secret', 'publishable', 'user'),
    rate: 'data',
    mediaType: legacyType,
    handle: (request, call) => handle(request, call),
  });

/** The same operations under the addresses of the platform and of the project. */
export const graphqlEndpoints: readonly Endpoint[] = paths.flatMap((path) => [at(path, 'post'), at(path, 'get')]);
