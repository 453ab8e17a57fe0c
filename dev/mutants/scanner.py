"""Finds functions and constants of C++ sources by name, and short pieces of code inside them.

Code is compared token by token: whitespace, line breaks, comments, namespaces before a name and how a string is cut into
pieces do not matter.
It reads what this repository writes, not all of C++: preprocessor lines are skipped, so both branches of an #if are
read, and each must have balanced braces.
"""

import dataclasses
import difflib
import pathlib
import re

SUFFIXES = (".hpp", ".cpp", ".cu", ".cuh")
TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<line>\#(?:[^\n\\]|\\.)*)
      |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
      |(?P<string>"(?:[^"\\\n]|\\.)*")
      |(?P<other>'(?:[^'\\\n]|\\.)+'|\.?\d(?:[eEpP][+-]|'?[\w.])*|[^\W\d]\w*
        |<=>|<<=|->\*|\.\.\.|::|->|\+\+|--|<<|&&|\|\||[-+*/%&|^!=<>]=|.)""", re.VERBOSE | re.DOTALL)
OPEN = {"(": ")", "[": "]", "{": "}"}
# Words before a bracket that is not a list of parameters.
NOT_NAMES = {"alignas", "decltype", "explicit", "noexcept", "requires", "throw", "__attribute__", "__launch_bounds__"}


class ScanError(Exception):
    """The code is not of the form that the scanner reads, or a piece of it does not occur exactly once."""


@dataclasses.dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A function with its head and body, or a variable with its value."""
    name: tuple  # ("snake_ddp", "replay", "Buffer", "sample")
    file: pathlib.Path
    line: int
    tokens: tuple

    def __str__(self):
        return f"{'::'.join(self.name)} ({self.file}:{self.line})"


def tokens(text):
    """Neighbouring string literals are one token, as for the compiler."""
    found = []
    for match in TOKEN.finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind in ("skip", "line"):
            continue
        if kind == "string" and found and found[-1].text[0] == '"':
            last = found.pop()
            found.append(Token(last.text[:-1] + word[1:], last.start, match.end()))
        else:
            found.append(Token(word, match.start(), match.end()))
    return found


def is_word(text):
    return text[0].isalpha() or text[0] == "_"


class _Reader:
    def __init__(self, text, file):
        self.text, self.file = text, file
        self.tokens = tokens(text)
        self.words = [token.text for token in self.tokens]
        self.closing = self._brackets()
        self.symbols = []
        self._scope(0, len(self.words), ())

    def _fail(self, at, what):
        line = self.text.count("\n", 0, self.tokens[at].start) + 1
        raise ScanError(f"{self.file}:{line}: {what}")

    def _brackets(self):
        closing, open_ = {}, []
        for i, word in enumerate(self.words):
            if word in OPEN:
                open_.append(i)
            elif word in OPEN.values():
                if not open_ or OPEN[self.words[open_[-1]]] != word:
                    self._fail(i, f"{word} closes nothing")
                closing[open_.pop()] = i
        if open_:
            self._fail(open_[-1], "is never closed")
        return closing

    def _after_angles(self, i):
        """The place after the > that belongs to the < at i."""
        depth = 0
        while i < len(self.words):
            word = self.words[i]
            if word in OPEN:
                i = self.closing[i]
            depth += (word == "<") - (word == ">")
            i += 1
            if depth == 0:
                break
        return i

    def _scope(self, i, end, names):
        while i < end:
            i = self._declaration(i, end, names)

    def _declaration(self, begin, end, names):
        """Reads one declaration of a namespace or class; returns the place after it."""
        i, words = begin, self.words
        while i < end and words[i] in ("public", "private", "protected") and words[i + 1] == ":":
            i += 2
        begin = i
        while i < end and words[i] == "template" and words[i + 1] == "<":
            i = self._after_angles(i + 1)
        if i < end and words[i] == "requires":
            i = self._after_requirement(i + 1)
        while i < end and words[i] == "[" and words[i + 1] == "[":
            i = self.closing[i] + 1
        if i >= end:
            return end
        if words[i] == "namespace" or words[i:i + 2] == ["inline", "namespace"]:
            return self._namespace(i + 1 + (words[i] == "inline"), names)
        if words[i] == "extern" and words[i + 1][0] == '"' and words[i + 2] == "{":
            self._scope(i + 3, self.closing[i + 2], names)
            return self.closing[i + 2] + 1
        if words[i] in ("class", "struct", "union", "enum"):
            after = self._class(i, end, names)
            if after is not None:
                return after
        return self._function_or_variable(begin, i, end, names)

    def _after_requirement(self, i):
        """A condition after `requires`, before the declaration: terms joined by && and ||."""
        words = self.words
        while True:
            if words[i] == "requires":
                i += 1
                if words[i] == "(":
                    i = self.closing[i] + 1
                i = self.closing[i] + 1
            elif words[i] == "(":
                i = self.closing[i] + 1
            else:
                while is_word(words[i]) or words[i] == "::":
                    i += 1
                    if words[i] == "<":
                        i = self._after_angles(i)
                        break
            if words[i] not in ("&&", "||"):
                return i
            i += 1

    def _namespace(self, i, names):
        words = self.words
        inner = []
        while words[i] not in ("{", "=", ";"):
            if is_word(words[i]):
                inner.append(words[i])
            i += 1
        if words[i] == "{":
            self._scope(i + 1, self.closing[i], (*names, *inner))
            return self.closing[i] + 1
        while words[i] != ";":  # an alias
            i += 1
        return i + 1

    def _class(self, i, end, names):
        """None if this is a function or variable that only names the type."""
        words = self.words
        is_enum = words[i] == "enum"
        name, i = "", i + 1
        while i < end and words[i] not in ("{", ";", ":"):
            if words[i] in ("=", "(") and words[i - 1] not in NOT_NAMES:
                return None
            if words[i] in OPEN:
                i = self.closing[i]
            elif words[i] == "<":
                i = self._after_angles(i) - 1
            elif is_word(words[i]) and words[i] not in ("final", "class", "struct", *NOT_NAMES):
                name = words[i]
            i += 1
        while i < end and words[i] not in ("{", ";"):
            i += 1
        if i < end and words[i] == "{":
            if not is_enum:
                self._scope(i + 1, self.closing[i], (*names, name))
            i = self.closing[i] + 1
            while i < end and words[i] != ";":
                i += 1
        return i + 1

    def _function_or_variable(self, begin, i, end, names):
        words = self.words
        parameters = name = None
        while i < end:
            word = words[i]
            if word == ";":
                return self._variable(begin, i, end, names, parameters)
            if word == "=" or (word == "{" and parameters is None):
                return self._variable(begin, i, end, names, parameters)
            if word == "operator" and parameters is None:
                stop = i + 1 + 2 * (words[i + 1] == "(")
                while words[stop] != "(":
                    stop += 1
                name = (*self._qualifiers(i), "operator" + "".join(words[i + 1:stop]))
                parameters, i = stop, self.closing[stop] + 1
            elif word == "(":
                if parameters is None and is_word(words[i - 1]) and words[i - 1] not in NOT_NAMES:
                    parameters = i
                    tilde = "~" if words[i - 2] == "~" else ""
                    name = (*self._qualifiers(i - 1 - len(tilde)), tilde + words[i - 1])
                i = self.closing[i] + 1
            elif word == "[":
                i = self.closing[i] + 1
            elif word == "<" and is_word(words[i - 1]):
                i = self._after_angles(i)
            elif word == ":" and parameters is not None:
                i = self._after_initializers(i + 1)
            elif word == "{":
                self._add((*names, *name), begin, self.closing[i] + 1)
                return self.closing[i] + 1
            elif word == "requires" and parameters is not None:
                i = self._after_requirement(i + 1)
            else:
                i += 1
        return end

    def _qualifiers(self, i):
        """The names before a name at i: of `Buffer<T>::sample` that is Buffer."""
        words, found = self.words, []
        while i >= 2 and words[i - 1] == "::":
            i -= 2
            if words[i] == ">":
                depth = 0
                while True:
                    depth += (words[i] == ">") - (words[i] == "<")
                    i -= 1
                    if depth == 0:
                        break
            if not is_word(words[i]):
                break
            found.insert(0, words[i])
        return found

    def _after_initializers(self, i):
        """The place of a constructor's body, from the first name after the colon."""
        words = self.words
        while True:
            while words[i] not in ("(", "{"):
                i = self._after_angles(i) if words[i] == "<" else i + 1
            i = self.closing[i] + 1
            if words[i] == "...":
                i += 1
            if words[i] != ",":
                return i
            i += 1

    def _variable(self, begin, i, end, names, parameters):
        """A variable, a declaration without a body, an alias: i is at the first = { or ;."""
        words, at = self.words, i
        while at > begin and words[at - 1] == "]":
            at -= 1
            while words[at] != "[":
                at -= 1
        while i < end and words[i] != ";":
            i = self.closing[i] + 1 if words[i] in OPEN else i + 1
        if parameters is None and at > begin and is_word(words[at - 1]) and words[begin] not in ("using", "typedef", "friend"):
            self._add((*names, words[at - 1]), begin, i + 1)
        return i + 1

    def _add(self, name, begin, end):
        line = self.text.count("\n", 0, self.tokens[begin].start) + 1
        self.symbols.append(Symbol(name, self.file, line, tuple(self.tokens[begin:end])))


def symbols(text, file="text"):
    return _Reader(text, file).symbols


def read(root, folders=("include", "src")):
    """{file, relative to root: (its text, its symbols)}"""
    files = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                file, text = path.relative_to(root), path.read_text(encoding="utf-8")
                files[file] = text, symbols(text, file)
    return files


def without_qualifiers(code):
    """One token for `game::State`, that reads `State`: a function in another namespace needs other qualifiers."""
    found = []
    for token in code:
        start = token.start
        if is_word(token.text) and found and found[-1].text == "::" and (len(found) == 1 or found[-2].text != ">"):
            start = found.pop().start
            if found and is_word(found[-1].text):
                start = found.pop().start
        found.append(Token(token.text, start, token.end))
    return found


def _occurrences(pattern, symbol):
    code = without_qualifiers(symbol.tokens)
    words = [token.text for token in code]
    return [(code[i].start, code[i + len(pattern) - 1].end)
            for i in range(len(words) - len(pattern) + 1) if words[i:i + len(pattern)] == pattern]


def _place(files, symbol, start):
    text, _ = files[symbol.file]
    return f"{symbol.file}:{text.count(chr(10), 0, start) + 1}"


def find(files, name, code):
    """(file, start, end) of the one place of `code` in the functions or variables of that name: `Buffer::sample` is any whose
    qualified name ends so."""
    parts, pattern = tuple(name.split("::")), [token.text for token in without_qualifiers(tokens(code))]
    if not pattern:
        raise ScanError(f"{name}: no code to look for")
    everything = [symbol for _, found in files.values() for symbol in found]
    named = [symbol for symbol in everything if symbol.name[-len(parts):] == parts]
    hits = [(symbol, *place) for symbol in named for place in _occurrences(pattern, symbol)]
    if len(hits) == 1:
        symbol, start, end = hits[0]
        return symbol.file, start, end
    if hits:
        raise ScanError(f"{name} has this {len(hits)} times, take a longer piece: {code}\n  "
                        + "\n  ".join(_place(files, symbol, start) for symbol, start, _ in hits))
    if named:
        problem = f"{name} does not have this: {code}\n  looked in " + ", ".join(map(str, named))
    else:
        alike = difflib.get_close_matches(parts[-1], sorted({symbol.name[-1] for symbol in everything}))
        problem = f"there is no function or variable {name}" + (f"; there is {', '.join(alike)}" if alike else "")
        problem += f"\n  looked for: {code}"
    elsewhere = [str(symbol) for symbol in everything if _occurrences(pattern, symbol)][:5]
    raise ScanError(problem + "\n  it is in: " + (", ".join(elsewhere) or "no other function"))
