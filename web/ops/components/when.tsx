import { agoText } from '../client/words.ts';
import { useNow } from '../client/clock.ts';

const absolute = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'long' });

const Ago = ({ at }: { readonly at: string }) => {
  const date = new Date(at);
  return (
    <time dateTime={at} title={absolute.format(date)}>
      {agoText(date.getTime(), useNow())}
    </time>
  );
};

/** A time as “5 s ago” that stays true, with the whole date as its title; a dash where there is none. */
export const When = ({ at }: { readonly at: string | null }) => (at === null ? '–' : <Ago at={at} />);
