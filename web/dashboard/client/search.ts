import { navigate, useLocationProperty } from 'wouter/use-browser-location';

type Change = (known: URLSearchParams) => URLSearchParams;

const searchText = (): string => globalThis.location.search;

/**
 * The parameters of the address, and how to change them. The router's own hook decodes them twice, so that a name with
 * `%2F` in it would become another one.
 */
export const useSearch = (): readonly [URLSearchParams, (change: Change) => void] => {
  const params = new URLSearchParams(useLocationProperty(searchText));
  const set = (change: Change): void => {
    const next = change(new URLSearchParams(searchText())).toString();
    navigate(globalThis.location.pathname + (next === '' ? '' : `?${next}`));
  };
  return [params, set];
};
