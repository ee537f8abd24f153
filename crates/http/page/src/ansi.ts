// Colours of terminals. Text stays text: escape codes become classes, everything else of them is dropped.

export interface Span {
  text: string;
  classes: string;
  colour: string | undefined;
}

// eslint-disable-next-line no-control-regex
const ESCAPE = /\u001b(?:\[([0-9;:]*)([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])|[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f]/g;

interface Style {
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  /** Front and back are swapped. */
  reverse: boolean;
  colour: number | undefined;
  exact: string | undefined;
  /** Of the sixteen backgrounds; exact ones are dropped, since text on them may not be readable. */
  back: number | undefined;
}

const PLAIN: Style = { bold: false, dim: false, italic: false, underline: false, reverse: false, colour: undefined, exact: undefined, back: undefined };

export function spans(line: string): Span[] {
  const found: Span[] = [];
  let style = { ...PLAIN };
  let at = 0;
  const push = (text: string): void => {
    if (text === "") return;
    const classes = [style.bold && "b", style.dim && "d", style.italic && "i", style.underline && "u", style.reverse && "r", style.colour !== undefined && `c${style.colour}`, style.back !== undefined && `k${style.back}`];
    found.push({ text, classes: classes.filter(Boolean).join(" "), colour: style.exact });
  };
  for (const match of line.matchAll(ESCAPE)) {
    push(line.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === "m") style = applied(style, match[1] ?? "");
  }
  push(line.slice(at));
  return found;
}

/** The line without any escape code. */
export const plain = (line: string): string => line.replace(ESCAPE, "");

function applied(before: Style, text: string): Style {
  let style = { ...before };
  const codes = text.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  for (let no = 0; no < codes.length; no += 1) {
    const code = codes[no] ?? 0;
    if (code === 0) style = { ...PLAIN };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.reverse = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.reverse = false;
    else if (code >= 40 && code <= 47) style.back = code - 40;
    else if (code >= 100 && code <= 107) style.back = code - 100;
    else if (code === 49) style.back = undefined;
    else if (code >= 30 && code <= 37) [style.colour, style.exact] = [code - 30, undefined];
    else if (code >= 90 && code <= 97) [style.colour, style.exact] = [code - 90 + 8, undefined];
    else if (code === 39) [style.colour, style.exact] = [undefined, undefined];
    else if (code === 38 || code === 48) {
      const isFront = code === 38;
      if (codes[no + 1] === 5) {
        if (isFront) [style.colour, style.exact] = of256(codes[no + 2] ?? 0);
        no += 2;
      } else if (codes[no + 1] === 2) {
        if (isFront) [style.colour, style.exact] = [undefined, rgb(codes[no + 2], codes[no + 3], codes[no + 4])];
        no += 4;
      }
    }
  }
  return style;
}

const byte = (value: number | undefined): number => Math.max(0, Math.min(255, Math.round(value ?? 0)));
const rgb = (red?: number, green?: number, blue?: number): string => `rgb(${byte(red)} ${byte(green)} ${byte(blue)})`;

function of256(no: number): [number | undefined, string | undefined] {
  if (no < 16) return [no, undefined];
  if (no >= 232) return [undefined, rgb(8 + (no - 232) * 10, 8 + (no - 232) * 10, 8 + (no - 232) * 10)];
  const level = (part: number): number => (part === 0 ? 0 : 55 + part * 40);
  const cube = no - 16;
  return [undefined, rgb(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6))];
}
