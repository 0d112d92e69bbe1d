import { Component, type ReactNode } from 'react';
import { Failure } from './failure.tsx';

interface BoundaryProps {
  /** Another value shows the children again: the address of the page, for example. */
  readonly resetBy: string;
  readonly children: ReactNode;
}

interface BoundaryState {
  readonly error: Error | null;
  readonly resetBy: string;
}

/** Keeps a fault of one page from taking the whole dashboard away; React offers this to class components only. */
export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { error: null, resetBy: this.props.resetBy };

  static getDerivedStateFromError = (error: unknown): Partial<BoundaryState> => ({
    error: error instanceof Error ? error : new Error(String(error)),
  });

  static getDerivedStateFromProps = (props: BoundaryProps, state: BoundaryState): Partial<BoundaryState> | null =>
    props.resetBy === state.resetBy ? null : { error: null, resetBy: props.resetBy };

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <>
        <h1>This page has failed</h1>
        <p>Nothing that was saved is lost. Please report the message below.</p>
        <Failure error={error} onRetry={() => globalThis.location.reload()} />
      </>
    );
  }
}
