import { type RefObject, type UIEvent, useEffect, useRef, useState } from 'react';

const overscan = 6;
/** Elements are at most 33 million px high in Chromium, and 17 in Firefox: above it the scroll bar is scaled. */
const maxHeight = 15_000_000;

interface VirtualRows {
  /** The element that scrolls. */
  readonly view: RefObject<HTMLDivElement | null>;
  readonly onScroll: (event: UIEvent<HTMLDivElement>) => void;
  /** The height of the element that holds the rows, in pixels. */
  readonly height: number;
  /** The rows that are elements. */
  readonly from: number;
  readonly to: number;
  /** The place of a row within its holder, in px. */
  readonly topOf: (row: number) => number;
  readonly show: (row: number) => void;
}

/**
 * The rows of a list of any length that are in sight. They have one height, as the head above them has, so that their
 * places are divisions.
 */
export const useVirtualRows = (count: number, rowHeight: number): VirtualRows => {
  const view = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ top: 0, height: 600 });
  const whole = count * rowHeight;
  const height = Math.min(whole, maxHeight);
  const scale = whole > place.height ? (whole - place.height) / Math.max(1, height - place.height) : 1;
  const rowTop = place.top * scale;
  useEffect(() => {
    const element = view.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() =>
      setPlace((known) => ({ ...known, height: element.clientHeight - rowHeight })),
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [rowHeight]);
  return {
    view,
    onScroll: ({ currentTarget: { scrollTop: top } }) => setPlace((known) => ({ ...known, top })),
    height,
    from: Math.max(0, Math.floor(rowTop / rowHeight) - overscan),
    to: Math.min(count, Math.ceil((rowTop + place.height) / rowHeight) + overscan),
    topOf: (row) => row * rowHeight - rowTop + place.top,
    show: (row) => {
      const element = view.current;
      if (element === null) return;
      const at = row * rowHeight;
      if (at < rowTop) element.scrollTop = at / scale;
      else if (at + rowHeight > rowTop + place.height) element.scrollTop = (at + rowHeight - place.height) / scale;
    },
  };
};
