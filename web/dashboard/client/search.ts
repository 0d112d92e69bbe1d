import { navigate, useLocationProperty } from 'wouter/use-browser-location';

type Params = URLSearchParams | Readonly<Record<string, string>>;
type Change = Params | ((known: URLSearchParams) => Params);

interface Options {
  /** The present address is replaced: the way back leads past it. */
  readonly replace?: boolean;
}

const searchText = (): string => globalThis.location.search;

/**
 * The parameters of the address, and how to change them. The router's own hook decodes them twice, so that a name with
 * `%2F` in it would become another one.
 */
export const useSearch = (): readonly [URLSearchParams, (change: Change, options?: Options) => void] => {
  const params = new URLSearchParams(useLocationProperty(searchText));
  const set = (change: Change, options: Options = {}): void => {
    const wanted = typeof change === 'function' ? change(new URLSearchParams(searchText())) : change;
    const next = new URLSearchParams(wanted).toString();
    navigate(globalThis.location.pathname + (next === '' ? '' : `?${next}`), options);
  };
  return [params, set];
};
