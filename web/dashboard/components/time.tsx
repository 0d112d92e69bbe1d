/** A time as the reader's own clock shows it. */
export const Time = ({ at }: { readonly at: string | null }) =>
  at === null ? '–' : <time dateTime={at}>{new Date(at).toLocaleString()}</time>;
