import { createContext, useContext, useEffect, useRef } from 'react';

/** Whether a view was shown before this one: the first takes no focus away. */
export const VisitedContext = createContext({ current: false });

/** The heading of a view. A view that somebody goes to begins at the top and with the focus there. */
export const Heading = ({ title }: { readonly title: string }) => {
  const ref = useRef<HTMLHeadingElement>(null);
  const visited = useContext(VisitedContext);
  useEffect(() => {
    document.title = `${title} · plinth operations`;
    if (visited.current) {
      ref.current?.focus({ preventScroll: true });
      globalThis.scrollTo(0, 0);
    }
    visited.current = true;
  }, [title, visited]);
  return (
    <h1 ref={ref} tabIndex={-1}>
      {title}
    </h1>
  );
};
