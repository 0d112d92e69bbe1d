import type { Parameter, Routine } from '../schema/schema.ts';
import { type SqlBuilder, arrayText, quoteName } from './sql.ts';

type Bind = SqlBuilder['bind'];

/** The arguments of a function call. */
export type Arguments =
  | { readonly kind: 'none' }
  /** By name out of a JSON object, whose text goes to the server as it came. */
  | { readonly kind: 'json'; readonly json: string; readonly names: readonly string[] }
  /** By name, each in the server's text form; several texts for a variadic parameter. */
  | { readonly kind: 'texts'; readonly values: ReadonlyMap<string, readonly string[]> }
  /** The whole body for the one parameter, which has no name. */
  | { readonly kind: 'body'; readonly text: string };

/** `call` is the function with its arguments, `from` what they come out of (empty or ending in a comma). */
interface Call {
  readonly from: string;
  readonly call: string;
}

const isVariadic = ({ parameters, variadic }: Routine, parameter: Parameter): boolean =>
  variadic && parameter === parameters.at(-1);

const namedArgument = (routine: Routine, parameter: Parameter, value: string): string =>
  `${isVariadic(routine, parameter) ? 'variadic ' : ''}${quoteName(parameter.name)} => ${value}`;

const jsonCall = (routine: Routine, json: string, names: readonly string[], bind: Bind): Call => {
  const given = routine.parameters.filter((parameter) => names.includes(parameter.name));
  const typed = given.map((parameter) => `${quoteName(parameter.name)} ${parameter.type}`).join(', ');
  const values = given.map((parameter) => namedArgument(routine, parameter, `a.${quoteName(parameter.name)}`));
  return {
    from: `json_to_record(${bind(json)}::json) as a(${typed}), `,
    call: `${routine.sql}(${values.join(', ')})`,
  };
};

const textsCall = (routine: Routine, given: ReadonlyMap<string, readonly string[]>, bind: Bind): Call => {
  const values = routine.parameters.flatMap((parameter) => {
    const texts = given.get(parameter.name);
    if (texts === undefined) return [];
    const [first = ''] = texts;
    // One text that is an array's already is that array; PostgREST's clients send it so.
    const isList = isVariadic(routine, parameter) && !(texts.length === 1 && first.startsWith('{'));
    return [
      namedArgument(routine, parameter, `${bind(isList ? arrayText(texts) : (texts.at(-1) ?? ''))}::${parameter.type}`),
    ];
  });
  return { from: '', call: `${routine.sql}(${values.join(', ')})` };
};

const callOf = (routine: Routine, given: Arguments, bind: Bind): Call => {
  if (given.kind === 'json' && given.names.length > 0) return jsonCall(routine, given.json, given.names, bind);
  if (given.kind === 'texts') return textsCall(routine, given.values, bind);
  if (given.kind === 'body') {
    const type = routine.parameters[0]?.type ?? 'text';
    return { from: '', call: `${routine.sql}(${bind(given.text)}::${type})` };
  }
  return { from: '', call: `${routine.sql}()` };
};

/**
 * The SELECT that calls a function: its rows where it returns such, else its values as column `value`. To be the body
 * of a MATERIALIZED table expression, so that it is called once.
 */
export const calledSql = (routine: Routine, given: Arguments, bind: Bind): string => {
  const { from, call } = callOf(routine, given, bind);
  if (routine.returns.composite) return `select r.* from ${from}${from && 'lateral '}${call} as r`;
  if (routine.returns.set) return `select r.value from ${from}${from && 'lateral '}${call} as r(value)`;
  return from === '' ? `select ${call} as value` : `select ${call} as value from ${from.slice(0, -2)}`;
};
