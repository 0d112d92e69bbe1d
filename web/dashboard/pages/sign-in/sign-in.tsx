import { useState } from 'react';
import { ApiError, call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { SignInForm } from '../../components/sign-in-form.tsx';

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

  const send = async (form: HTMLFormElement): Promise<void> => {
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
  const enter = async (form: HTMLFormElement): Promise<void> => {
    try {
      await send(form);
      onSignedIn();
    } catch (error) {
      const token = factorTokenOf(error);
      if (token === null) throw error;
      setFactorToken(token);
    }
  };

  return (
    <SignInForm
      title={isNew ? 'Create an account' : 'Sign in to plinth'}
      action={isNew ? 'Create the account' : 'Sign in'}
      enter={enter}
      below={
        <p>
          <button type="button" className="quiet" onClick={() => setNew(!isNew)}>
            {isNew ? 'I have an account' : 'Create an account'}
          </button>
        </p>
      }
    >
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
    </SignInForm>
  );
};
