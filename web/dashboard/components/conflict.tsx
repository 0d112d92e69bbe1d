import { Changes } from './changes.tsx';

interface ConflictProps {
  /** The thing that was changed, as the beginning of a sentence. */
  readonly what: string;
  /** As it was when the edit began. */
  readonly before: unknown;
  readonly now: unknown;
  readonly onKeep: () => void;
  readonly onTake: () => void;
}

/** Says that somebody else has changed the same thing meanwhile, and asks what is to become of one's own edit. */
export const Conflict = ({ what, before, now, onKeep, onTake }: ConflictProps) => (
  <div role="alert" className="failure">
    <p>{what} changed by somebody else meanwhile. Nothing was overwritten, and your edit is still here.</p>
    <Changes caption="What they changed" before={before} after={now} names={['When you began', 'Now']} />
    <p className="row">
      <button type="button" onClick={onKeep}>
        Save mine all the same
      </button>
      <button type="button" onClick={onTake}>
        Take theirs
      </button>
    </p>
  </div>
);
