import { type FormEvent, type ReactNode, useState } from 'react';
import { Dialog } from './dialog.tsx';
import { Failure } from './failure.tsx';

interface TypeNameProps {
  readonly title: string;
  /** The name that has to be typed. */
  readonly name: string;
  readonly action: string;
  /** Names what is destroyed. */
  readonly children: ReactNode;
  readonly error: unknown;
  readonly busy: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks before something large is destroyed: only who types its name goes on. */
export const TypeName = ({ title, name, action, children, error, busy, onConfirm, onClose }: TypeNameProps) => {
  const [typed, setTyped] = useState('');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (typed === name) onConfirm();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <form onSubmit={submit}>
        <label>
          <span>
            Type <code>{name}</code> to go on
          </span>
          <input
            value={typed}
            autoComplete="off"
            spellCheck={false}
            onChange={({ target }) => setTyped(target.value)}
          />
        </label>
        {error !== null && <Failure error={error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="danger" disabled={busy || typed !== name}>
            {action}
          </button>
        </p>
      </form>
    </Dialog>
  );
};
