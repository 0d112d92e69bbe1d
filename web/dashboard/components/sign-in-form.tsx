import { type FormEvent, type ReactNode, useState } from 'react';
import { Failure } from './failure.tsx';

interface SignInFormProps {
  readonly title: string;
  readonly action: string;
  /** Signs in, or throws what is shown. */
  readonly enter: (form: HTMLFormElement) => Promise<void>;
  /** The fields. */
  readonly children: ReactNode;
  /** Stands below the form. */
  readonly below?: ReactNode;
}

/** The page of somebody who is not signed in. */
export const SignInForm = ({ title, action, enter, children, below }: SignInFormProps) => {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await enter(event.currentTarget);
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="narrow" id="content">
      <h1>{title}</h1>
      <form onSubmit={(event) => void submit(event)}>
        {children}
        {error !== null && <Failure error={error} />}
        <button type="submit" className="primary" disabled={busy}>
          {action}
        </button>
      </form>
      {below}
    </main>
  );
};
