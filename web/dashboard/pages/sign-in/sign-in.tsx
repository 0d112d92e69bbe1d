import { type FormEvent, useState } from 'react';
import { ApiError, call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { Failure } from '../../components/failure.tsx';

interface SignInProps {
  readonly onSignedIn: () => void;
}

const factorTokenOf = (error: unknown): string | null =>
  error instanceof ApiError && error.code === 'factor_required'
    ? String((error.details as { factor_token?: unknown }).factor_token)
    : null;

/** Signs in by e-mail and password, and a code where the account asks for one; or makes an account. */
export const SignInPage = ({ onSignedIn }: SignInProps) => {
  const [isNew, setNew] = useState(false);
  const [factorToken, setFactorToken] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const enter = async (form: HTMLFormElement): Promise<void> => {
    if (factorToken !== null) {
      await call('POST /dashboard/session/factor', {
        body: { factor_token: factorToken, code: fieldOf(form, 'code') },
      });
      return;
    }
    const [email, password] = [fieldOf(form, 'email'), fieldOf(form, 'password')];
    if (isNew) await call('POST /auth/signup', { body: { email, password } });
    await call('POST /dashboard/session', { body: { email, password } });
  };
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await enter(event.currentTarget);
      onSignedIn();
    } catch (thrown) {
      const token = factorTokenOf(thrown);
      if (token === null) setError(thrown);
      else setFactorToken(token);
    } finally {
      setBusy(false);
    }
  };

  return (
    <main className="narrow" id="content">
      <h1>{isNew ? 'Create an account' : 'Sign in to plinth'}</h1>
      <form onSubmit={(event) => void submit(event)}>
        {factorToken === null ? (
          <>
            <label>
              E-mail
              <input name="email" type="email" autoComplete="username" required />
            </label>
            <label>
              Password
              <input
                name="password"
                type="password"
                autoComplete={isNew ? 'new-password' : 'current-password'}
                minLength={isNew ? 8 : 1}
                maxLength={128}
                required
              />
            </label>
          </>
        ) : (
          <label>
            Code of your second factor
            <input name="code" inputMode="numeric" autoComplete="one-time-code" required />
          </label>
        )}
        {error !== null && <Failure error={error} />}
        <button type="submit" className="primary" disabled={busy}>
          {isNew ? 'Create the account' : 'Sign in'}
        </button>
      </form>
      <p>
        <button type="button" className="quiet" onClick={() => setNew(!isNew)}>
          {isNew ? 'I have an account' : 'Create an account'}
        </button>
      </p>
    </main>
  );
};
