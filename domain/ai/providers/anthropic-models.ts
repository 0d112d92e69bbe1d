/**
 * Differences among Anthropic's models (docs.anthropic.com, "Models overview", "Structured outputs"; checked against
 * @ai-sdk/anthropic 3.0.138). An unknown model is taken for one of the newest.
 * @ai-sdk/anthropic 3.0.138). A model that is not known yet is taken for one of the newest.
 */
const isClaude = (model: string): boolean => model.startsWith('claude-');
const oldest = /^claude-(?:instant|v?2|3)(?:[-.]|$)/;
const fourOrFourZero = /^claude-(?:sonnet|opus)-4(?:-0|-\d{8}|$)/;
const samplingIsFree = /^claude-(?:sonnet|opus|haiku)-4(?!-[78](?:\D|$))/;

/**
 * The dialect wants a bound on each answer. 32,000 is what all Claude models since 4 allow, and far above any answer;
 * the oldest, and models that are not Anthropic's behind a base URL of the project's own, get 4,096.
 */
export const maxOutputTokensOf = (model: string): number => (isClaude(model) && !oldest.test(model) ? 32_000 : 4096);

/** The newest refuse temperature and top_p. */
export const takesSampling = (model: string): boolean =>
  !isClaude(model) || oldest.test(model) || samplingIsFree.test(model);

/**
 * Whether the vendor itself holds the model to a JSON Schema (`output_config.format`). The other way, a tool that the model
 * is forced to call, is refused by the newest models; where there is neither, the schema is asked for in words.
 */
export const takesSchema = (model: string): boolean =>
  isClaude(model) && !oldest.test(model) && !fourOrFourZero.test(model);

// Keywords that the vendor refuses in a schema; the model is not held to them anyway.
const refused = new Set([
  '$schema',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
]);
// Below these the names are the schema's author's own.
const named = new Set(['properties', '$defs', 'definitions', 'patternProperties']);

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A JSON Schema as Anthropic takes it: without those keywords, and every object closed. */
export const acceptedSchema = (schema: unknown, areNames = false): unknown => {
  if (Array.isArray(schema)) return schema.map((one: unknown) => acceptedSchema(one));
  if (!isRecord(schema)) return schema;
  const kept = Object.entries(schema)
    .filter(([name]) => areNames || !refused.has(name))
    .map(([name, value]) => [
      name,
      keepsValue(name, areNames) ? value : acceptedSchema(value, !areNames && named.has(name)),
    ]);
  const isObject = !areNames && schema['type'] === 'object';
  return { ...(Object.fromEntries(kept) as object), ...(isObject && { additionalProperties: false }) };
};

/** Values that are data, not schemas. */
const keepsValue = (name: string, areNames: boolean): boolean =>
  !areNames &&
  (name === 'enum' || name === 'const' || name === 'default' || name === 'examples' || name === 'required');
