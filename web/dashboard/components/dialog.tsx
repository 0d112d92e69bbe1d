import { type ReactNode, useId, useLayoutEffect, useRef } from 'react';

interface DialogProps {
  readonly title: string;
  readonly className?: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** A modal dialog of the browser's own: it keeps the focus, closes by Escape, and gives the focus back. */
export const Dialog = ({ title, className, onClose, children }: DialogProps) => {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Closed before it leaves the page: only then does the browser give the focus back.
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (dialog?.open === false) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={ref} className={className} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
};

interface ConfirmProps {
  readonly title: string;
  /** Names what is destroyed. */
  readonly children: ReactNode;
  readonly action: string;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks before something is destroyed. */
export const Confirm = ({ title, children, action, onConfirm, onClose }: ConfirmProps) => (
  <Dialog title={title} onClose={onClose}>
    {children}
    <p className="row end">
      <button type="button" onClick={onClose}>
        Cancel
      </button>
      <button type="button" className="danger" onClick={onConfirm}>
        {action}
      </button>
    </p>
  </Dialog>
);
