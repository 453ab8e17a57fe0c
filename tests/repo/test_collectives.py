"""No rank calls a collective that another one leaves out: none is called inside of a branch on the rank."""

import re

import pytest

from test_repo import FILES, text_of

# Of DistContext, by the names that its objects have.
CALL = re.compile(r"\b(?:context_?|group)(?:\.|->)(all_reduce_sum|all_reduce_mean|broadcast|broadcast_text|barrier|"
                  r"gather|check_same)\(")
RANK = re.compile(r"\bis_main\(\)|\brank\(\)|\brank (?:[=!]=|[<>]=?) |\brank_? (?:[=!]=|[<>]=?) ")
EXIT = re.compile(r"\s*(?:return|continue|break|throw)\b")


def code_of(text):
    """Without comments and texts, whose characters become blanks."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)


def closing(code, at):
    """Behind the bracket that closes the one at `at`."""
    pairs = {"(": ")", "{": "}"}
    opens, closes, depth = code[at], pairs[code[at]], 0
    for place in range(at, len(code)):
        depth += (code[place] == opens) - (code[place] == closes)
        if depth == 0:
            return place + 1
    raise AssertionError(f"unbalanced: {code[at:at + 80]}")


def statement_end(code, at):
    """Behind the statement that begins at `at`: a block, or up to its semicolon, with what an `if` or a loop controls."""
    at += len(code[at:]) - len(code[at:].lstrip())
    if code[at] == "{":
        return closing(code, at)
    if head := re.compile(r"(?:if|for|while|switch)\s*(?:constexpr\s*)?(?=\()|else\b|do\b|try\b").match(code, at):
        behind = head.end()
        if code[behind:behind + 1] == "(":
            behind = closing(code, behind)
        end = statement_end(code, behind)
        follows = re.compile(r"\s*else\b").match(code, end)
        return statement_end(code, follows.end()) if follows and head[0].startswith("if") else end
    while code[at] != ";":
        at = closing(code, at) if code[at] in "({" else at + 1
    return at + 1


def enclosing_end(code, at):
    """The end of the block around `at`."""
    depth = 0
    for place in range(at, len(code)):
        depth += (code[place] == "{") - (code[place] == "}")
        if depth < 0:
            return place
    return len(code)


def functions(code):
    """(name, parameters, begin, end) of the bodies of functions and lambdas with a name."""
    for found in re.finditer(r"\b(\w+)(?:\s*=\s*\[[^\]]*\]\s*)?\s*(?=\()", code):
        behind = closing(code, found.end()) if found[1] not in ("if", "for", "while", "switch", "catch", "return") else None
        if behind is None:
            continue
        body = re.compile(r"\s*(?:const\b|noexcept\b|override\b|mutable\b|->\s*[\w:<>]+|\s)*(?::[^;{}]*(?:\{[^{}]*\}[^;{}]*)*)?\{").match(code, behind)
        if body:
            yield found[1], code[found.end():behind], body.end() - 1, closing(code, body.end() - 1)


def leaves(code, begin, end):
    """Does the branch end with an exit?"""
    last = begin
    if code[begin:end].lstrip().startswith("{"):
        begin, end = code.index("{", begin) + 1, end - 1
    while code[begin:end].strip():
        last, begin = begin, statement_end(code, begin)
    return EXIT.match(code, last) is not None


def branches(code):
    """(begin, end) of what depends on the rank: what an `if` controls, its `else`, and what follows an exit."""
    tainted = set(re.findall(r"\bbool (\w+) =[^;]*\bis_main\(\)", code))
    condition = re.compile("|".join([RANK.pattern, *(rf"\b{name}\b" for name in tainted)]))
    for found in re.finditer(r"\b(if|while|for)\s*(?=\()", code):
        behind = closing(code, found.end())
        asked = code[found.end():behind]
        while call := CALL.search(asked):  # its result is the same on all ranks
            asked = asked[:call.start()] + asked[closing(asked, call.end() - 1):]
        if not condition.search(asked):
            continue
        end = statement_end(code, behind)
        yield behind, end
        if follows := re.compile(r"\s*else\b").match(code, end):
            yield follows.end(), statement_end(code, follows.end())
        if found[1] == "if" and leaves(code, behind, end):
            yield end, enclosing_end(code, end)
    for found in condition.finditer(code):  # a && context.gather(...), a ? ... : ...
        rest = re.compile(r"[^;{}]*").match(code, found.end())
        if re.search(r"&&|\|\||\?", rest[0]):
            yield found.end(), rest.end()


def callers(sources):
    """Names of functions that call collectives, directly or through others. They are given the group, or have it."""
    bodies = [(name, code[begin:end]) for code in sources.values() for name, parameters, begin, end in functions(code)
              if re.search(r"DistContext|Session|Ranks", parameters) or "context_" in code[begin:end]]
    known = set()
    while True:
        pattern = re.compile("|".join([CALL.pattern, *(rf"\b{name}\(" for name in known)]))
        found = {name for name, body in bodies if pattern.search(body)} - known
        if not found:
            return known
        known |= found


def misplaced(sources):
    names = callers(sources)
    pattern = re.compile("|".join([CALL.pattern, *(rf"(?<![.\w]){name}\(" for name in sorted(names))]))
    found = set()
    for path, code in sources.items():
        for begin, end in branches(code):
            for call in pattern.finditer(code, begin, end):
                found.add(f"{path}:{code.count(chr(10), 0, call.start()) + 1}: {call[0]}")
    return found


MAKERS = {f"src/dist/{name}.cpp" for name in ("connect", "context", "joining", "rendezvous", "shared_sum")}  # make the group


def sources():
    """The code that uses a group."""
    return {name: code_of(text_of(name)) for name in FILES if name.startswith("src/") and name.endswith(".cpp") and name not in MAKERS}


def test_no_collective_is_called_by_some_ranks_only():
    code = sources()
    # Rank 0 broadcasts after each piece of its work until there is a path, and the others receive until they have it.
    path, function = "src/pretrain/import.cpp", "shared_set"
    (begin, end), = ((begin, end) for name, _, begin, end in functions(code[path]) if name == function)
    assert misplaced({path: code[path][begin:end]}), "it has become like the others: take it from here"
    code[path] = code[path][:begin] + re.sub(r"[^\n]", " ", code[path][begin:end]) + code[path][end:]
    assert not misplaced(code)
    assert {"save", "judge_league", "compare_weights", "add_up", "check_settings", "resume"} <= callers(code)


@pytest.mark.parametrize("body, is_wrong", [
    ("if (context.is_main()) context.barrier(w, d);", True),
    ("if (context.is_main()) { note(); context.all_reduce_sum(t, d); }", True),
    ("if (context.is_main()) note(); else context.broadcast(t, 0, d);", True),
    ("if (!context.is_main()) return; context.gather(t, d);", True),
    ("if (!context.is_main()) { note(); return; } note(); helper(context);", True),
    ("for (;;) { if (context.rank() == 0) continue; helper(context); }", True),
    ("const bool main = context.is_main(); if (a && main) helper(context);", True),
    ("const bool fine = context.is_main() && context.gather(t, d).empty();", True),
    ("context.is_main() ? helper(context) : note();", True),
    ("if (rank == 0) for (int i = 0; i < 3; ++i) { context.check_same(w, v, d); }", True),
    ("if (context.is_main()) note(); context.gather(t, d);", False),
    ("if (context.is_main()) { if (bad) throw e; note(); } context.gather(t, d);", False),
    ("if (context.broadcast_text(context.is_main() ? a : b, d) == a) return; helper(context);", False),
    ("if (size > 1) { context.barrier(w, d); }", False),
    ("context.gather(context.is_main() ? a : b, d);  // if (context.is_main()) context.barrier(w, d);", False),
])
def test_misplaced_collectives_are_found(body, is_wrong):
    code = "void helper(DistContext& context) { context.barrier(w, d); } void f(DistContext& context) { " + body.replace("  //", " //") + "\n}"
    assert bool(misplaced({"a.cpp": code_of(code)})) == is_wrong
