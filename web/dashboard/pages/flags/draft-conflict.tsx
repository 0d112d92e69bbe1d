import { Changes } from '../../components/changes.tsx';

interface DraftConflictProps {
  /** The thing and its present version, as a sentence begins: "The flag", 3. */
  readonly what: string;
  readonly version: number;
  readonly theirs: unknown;
  readonly mine: unknown;
  readonly onKeep: () => void;
  readonly onTake: () => void;
}

/** A draft was begun with a version that somebody else has replaced: says so, and asks which of the two is to stay. */
export const DraftConflict = ({ what, version, theirs, mine, onKeep, onTake }: DraftConflictProps) => (
  <div role="alert" className="failure">
    <p>
      {what} was changed by somebody else meanwhile: version {version} is the present one.
    </p>
    <Changes caption="What they changed, and you" before={theirs} after={mine} names={['Theirs', 'Yours']} />
    <p className="row">
      <button type="button" onClick={onKeep}>
        Keep mine
      </button>
      <button type="button" onClick={onTake}>
        Take theirs
      </button>
    </p>
  </div>
);
