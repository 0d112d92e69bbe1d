import { Confirm } from './dialog.tsx';

interface Unsaved {
  readonly isOf: RegExp;
  readonly words: string;
  /** Whether what is kept there is saved nowhere else. Left out: it is. */
  readonly isUnsaved?: (kept: string) => boolean;
}

interface KeptText {
  readonly text?: unknown;
  readonly revision?: unknown;
  readonly snippet?: { readonly saved?: unknown } | null;
}

const isUnsavedSql = (kept: string): boolean => {
  try {
    const { text, revision, snippet } = JSON.parse(kept) as KeptText;
    return revision !== 1 && text !== '' && snippet?.saved !== text;
  } catch {
    return false;
  }
};

const kinds: readonly Unsaved[] = [
  { isOf: /^staged:/, words: 'changes of rows' },
  { isOf: /^sql:.*:tab:/, words: 'texts of SQL', isUnsaved: isUnsavedSql },
  { isOf: /^draft:/, words: 'code of functions that is not deployed' },
  { isOf: /^plinth:draft:/, words: 'forms and prompts that are not finished' },
  { isOf: /^plinth:prompts:/, words: 'saved prompts' },
];

/** Names in words the kinds of texts that only this browser has. */
export const unsavedWords = (): readonly string[] => {
  const keys = Object.keys(localStorage);
  return kinds
    .filter(({ isOf, isUnsaved = () => true }) =>
      keys.some((key) => isOf.test(key) && isUnsaved(localStorage.getItem(key) ?? '')),
    )
    .map(({ words }) => words);
};

interface Props {
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks before the texts are deleted that only this browser has. */
export const SignOutDialog = ({ onConfirm, onClose }: Props) => (
  <Confirm title="Sign out" action="Delete them and sign out" onConfirm={onConfirm} onClose={onClose}>
    <p>Only this browser has these, and they are deleted when you sign out, so that nobody else sees them:</p>
    <ul>
      {unsavedWords().map((words) => (
        <li key={words}>{words}</li>
      ))}
    </ul>
  </Confirm>
);
