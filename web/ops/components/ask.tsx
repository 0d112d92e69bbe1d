import { useMutation } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useRef, useState } from 'react';
import { Dialog } from '../../dashboard/components/dialog.tsx';
import { Failure } from '../../dashboard/components/failure.tsx';

interface AskProps {
  readonly title: string;
  readonly text: string;
  readonly action: string;
  readonly isDangerous?: boolean;
  /**
   * Does what was asked; its failure is shown, and the question stays open.
   * @param report says how far it is
   */
  readonly work: (form: HTMLFormElement, report: (text: string) => void) => Promise<void>;
  /** The question is over. @param isDone whether the work was done */
  readonly onClose: (isDone: boolean) => void;
  /** The fields of the form. */
  readonly children?: ReactNode;
}

/** A question with a form. Escape and Cancel leave everything as it is. */
export const Ask = ({ title, text, action, isDangerous = false, work, onClose, children }: AskProps) => {
  const [progress, setProgress] = useState('');
  const isOver = useRef(false);
  const close = (isDone: boolean): void => {
    // The browser reports that a dialog is closed after it has left the page, too.
    if (isOver.current) return;
    isOver.current = true;
    onClose(isDone);
  };
  const run = useMutation({
    mutationFn: (form: HTMLFormElement) => work(form, setProgress),
    onSuccess: () => close(true),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    if (!run.isPending) run.mutate(event.currentTarget);
  };
  return (
    <Dialog title={title} onClose={() => close(false)}>
      <form onSubmit={submit}>
        <p>{text}</p>
        {children}
        {progress !== '' && <p role="status">{progress}</p>}
        {run.error && <Failure error={run.error} />}
        <p className="row end">
          <button type="button" onClick={() => close(false)}>
            Cancel
          </button>
          <button type="submit" className={isDangerous ? 'danger' : 'primary'} disabled={run.isPending}>
            {action}
          </button>
        </p>
      </form>
    </Dialog>
  );
};
