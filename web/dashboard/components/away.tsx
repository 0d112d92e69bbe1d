import { useEffect, useRef } from 'react';
import { useIsReachable } from '../client/reach.ts';

/** Says that the platform is unreachable, above everything else on the page: a popover is above open dialogs, too. */
export const Away = () => {
  const isReachable = useIsReachable();
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isReachable) ref.current?.showPopover();
    else if (ref.current?.matches(':popover-open') === true) ref.current.hidePopover();
  }, [isReachable]);
  return (
    <div ref={ref} popover="manual" role="status" className="away">
      {!isReachable && 'The platform cannot be reached. What you typed is kept, and this page tries again by itself.'}
    </div>
  );
};
