import { announce } from '../client/announce.ts';
import { countText, numberText } from '../client/words.ts';
import { Ask } from '../components/ask.tsx';

interface Counts {
  readonly waiting: number | null;
  readonly running: number | null;
}

export interface SwitchProps {
  readonly action: 'pause' | 'resume';
  readonly what: string;
  readonly counts: Counts;
  /** A sentence about what is not affected. */
  readonly others: string;
  readonly work: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Explains how a pause, or its end, affects jobs. */
const effectOf = (action: SwitchProps['action'], { waiting, running }: Counts): string =>
  action === 'pause'
    ? `${countText(waiting ?? 0, 'job')} that wait stay where they are, and what comes waits with them. What runs (${numberText(running ?? 0)}) goes on.`
    : `${countText(waiting ?? 0, 'job')} that wait are handed to workers again.`;

const words = { pause: ['Pause', 'is paused'], resume: ['Resume', 'runs again'] } as const;

/** Asks before something is paused or resumed, and names what it affects. */
export const Switch = ({ action, what, counts, others, work, onClose }: SwitchProps) => {
  const [verb, done] = words[action];
  return (
    <Ask
      title={`${verb} ${what}?`}
      text={`${effectOf(action, counts)} ${others}`}
      action={verb}
      isDangerous={action === 'pause'}
      onClose={onClose}
      work={async () => {
        await work();
        announce(`${what} ${done}.`);
      }}
    />
  );
};
