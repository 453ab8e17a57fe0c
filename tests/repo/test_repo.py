"""Rules of the repository, checked on every file that git tracks."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["SD_SOURCE_DIR"]).resolve()
CODE = (".hpp", ".cpp", ".cu", ".cuh")


def tracked_files():
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name]
    assert len(names) > 20, "is this the repository?"
    return names


TRACKED = tracked_files()
FILES = [name for name in TRACKED if (ROOT / name).is_file() and not (ROOT / name).is_symlink()
         and not name.startswith("third_party/")]  # as others wrote it


def text_of(name):
    """The file's text; None if it is not text."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def lines_with(pattern, names=None):
    found = []
    for name in FILES if names is None else names:
        for number, line in enumerate((text_of(name) or "").splitlines(), start=1):
            found += [f"{name}:{number}: {match.group()}" for match in re.finditer(pattern, line)]
    return found


# ---- code ----------------------------------------------------------------------------------------------------------

def test_all_code_is_formatted():
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    assert tool, "clang-format is missing: apt-get install clang-format"
    code = [name for name in FILES if name.endswith(CODE)]
    assert len(code) > 10
    done = subprocess.run([tool, "--dry-run", "--Werror", "--style=file", *code], cwd=ROOT, capture_output=True, text=True)
    badly = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.strip()
    assert done.returncode == 0, f"run clang-format -i (version 14; this is {version}) on {badly or done.stderr}"


def test_the_formatting_check_notices_bad_format(tmp_path):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    assert tool, "clang-format is missing: apt-get install clang-format"
    shutil.copy(ROOT / ".clang-format", tmp_path)
    (tmp_path / "bad.cpp").write_text("int  main( ){return 0 ;}\n")
    assert subprocess.run([tool, "--dry-run", "--Werror", "--style=file", "bad.cpp"], cwd=tmp_path,
                          capture_output=True).returncode != 0


SOURCES = [name for name in FILES if name.endswith(CODE) and name.startswith(("src/", "include/", "python/src/"))]
# What the library throws names no remedy, and ends with exit code 1. Folders have io/folders.hpp.
THROWING = (r"\b(?:fs|filesystem)::(absolute|canonical|weakly_canonical|relative|proximate|copy|copy_file|copy_symlink|"
            r"create_\w+|current_path|equivalent|exists|file_size|hard_link_count|is_\w+|last_write_time|permissions|"
            r"read_symlink|remove|remove_all|rename|resize_file|space|status|symlink_status|temp_directory_path|"
            r"(?:recursive_)?directory_iterator(?: \w+)?)\(")
THROWING_MEMBERS = r"[\w)](?:\.|->)(?:last_write_time|file_size|is_(?:directory|regular_file|symlink|fifo))\(\)"
ENTRIES = r"for \([^;)]*: *(?:std::)?(?:fs|filesystem)::(?:recursive_)?directory_iterator\("


def arguments_at(text, begin):
    """Those of the call whose bracket opens before `begin`."""
    depth, last, found = 0, begin, []
    for at in range(begin, len(text)):
        if text[at] in ")}]" and depth == 0:
            return [*found, text[last:at].strip()]
        depth += (text[at] in "({[") - (text[at] in ")}]")
        if text[at] == "," and depth == 0:
            found, last = [*found, text[last:at].strip()], at + 1
    raise AssertionError("a call without an end")


def throwing_calls(text):
    codes = {name for names in re.findall(r"std::error_code ([\w, ]+);", text) for name in names.split(", ")}
    found = [match.group() for pattern in (THROWING_MEMBERS, ENTRIES) for match in re.finditer(pattern, text)]
    for match in re.finditer(THROWING, text):
        arguments = arguments_at(text, match.end())
        of_status = match.group(1).startswith(("exists", "is_")) and "status(" in arguments[0]
        end = match.group(1).endswith("directory_iterator") and arguments == [""]
        if arguments[-1] not in codes and not of_status and not end:
            found.append(match.group() + ", ".join(arguments) + ")")
    return found


def test_no_function_of_the_library_throws_for_a_file():
    assert {name: calls for name in SOURCES if (calls := throwing_calls(text_of(name)))} == {}


@pytest.mark.parametrize("code", ("if (fs::exists(path)) {", "std::error_code e; fs::file_size(a(b, e));", "x = std::filesystem::absolute(p);",
                                  "for (const auto& e : fs::directory_iterator(folder, none)) {", "entry.last_write_time() > t",
                                  "fs::directory_iterator it(path);"))
def test_the_check_for_throwing_functions_notices_them(code):
    assert throwing_calls(code)
    assert not throwing_calls("std::error_code none, e;\nfs::exists(path, e); fs::rename(a(b), c, none); it != fs::directory_iterator();")


# A folder may be a stranger's: io/open_file.hpp neither waits for pipes nor follows links where it writes.
OPENS = {
    "src/io/open_file.cpp": "the place", "src/io/atomic_file.cpp": "new files (O_EXCL), and folders to sync",
    "src/io/event_writer.cpp": "new files (O_EXCL)", "src/io/run_folder.cpp": "locks: a folder, and a log without waiting",
    "src/io/checkpoint_folder.cpp": "folders to sync", "src/core/console.cpp": "/dev/null", "src/core/host.cpp": "/proc and /sys",
    "src/app/terminal.cpp": "the terminal", "src/dist/world.cpp": "/proc", "src/dist/stacks.cpp": "/proc",
    "src/dist/shared_sum.cpp": "another rank's memory and state", "src/dist/error_file.cpp": "torchrun's file",
    "src/dist/self_launch.cpp": "a test's file, from the environment"}


def test_files_are_opened_in_one_place():
    opening = {line.split(":")[0] for line in lines_with(r"[^:\w]::(?:open|openat|creat)\(|\b(?:gz|f|fd)open\(|\b[io]?fstream\b(?!>)|memory_map", SOURCES)}
    assert opening <= set(OPENS)


def test_links_are_followed_only_for_what_the_user_typed():
    assert {line.split(":")[0] for line in lines_with(r"io::(?:write|check)_output\(", SOURCES)} <= {
        f"src/app/{name}.cpp" for name in ("recording", "cmd_report", "cmd_replay", "cmd_play", "cmd_export")}


def test_text_reaches_the_terminal_only_where_it_is_escaped():
    printing = lines_with(r"\b(?:f|v|d)?printf\(|\bf?put(?:s|c|char)\(|std::c(?:out|err|log)\b|\bfwrite\(|fmt::print|STD(?:OUT|ERR)_FILENO|core::draw\(", SOURCES)
    printing = {line.split(":")[0] for line in printing}
    assert printing <= {
        "src/core/console.cpp",  # the place
        "src/app/board_text.cpp",  # pictures of boards; names by core::as_plain
        "src/app/terminal.cpp",  # the screen of `play`, the descriptor of the bar's console
        "src/app/command_line.cpp", "src/app/help.cpp",  # whether it is a terminal, and how wide
        "src/dist/rendezvous.cpp",  # descriptors above the standard ones
        "src/app/starter/main.cpp"}  # its own path, before the program starts


# Not verbs, nor what is never counted. Their numbers come from outside, so that each may be 1.
COUNTED = """beans boards bytes cells codes copies cores curves deaths elements episodes epochs evaluations features files games GPUs layers lines
lists machines matches members mismatches minutes moves networks numbers opponents outputs points processes ranks rollouts rows samples
seconds simulations snakes steps tasks teams tensors threads times tokens transitions units updates values views visits weights windows
workers""".split()
A_COUNT = re.compile(r"""(?<!more\ than\ )                                 # a bound is many
    (?:\$?\{(?![A-Z_]+\})[^{}"`]*\}|\+[ ]?")[ ]                             # what fmt, Python or a page's script fills in; not a constant
    (?:(?:more|other|new|local|earlier|console|hidden|whole|writable|Float)[ ])*
    (?:""" + "|".join(COUNTED) + r")\b(?!/s)", re.VERBOSE)
NOT_COUNTS = ("{} files return", "{} numbers pods", "{} bytes or more")  # of a format; RANK={}; more than any file


def bare_counts(text):
    joined = re.sub(r'"\s*\n\s*f?"', "", re.sub(r"^\s*(?://|#).*", "", text, flags=re.M))
    return [match.group() for match in A_COUNT.finditer(joined) if not joined.startswith(NOT_COUNTS, match.start())]


def test_counted_words_agree_with_their_number():
    code = [name for name in FILES if name.startswith(("src/", "include/", "python/")) and name.endswith((*CODE, ".py", ".html"))]
    found = {name: bare_counts(text_of(name)) for name in code}
    assert {name: counts for name, counts in found.items() if counts} == {}, "use counted()"


@pytest.mark.parametrize("code", ('fmt::format("after {} updates", n)', 'fmt::format("{} of {} "\n    "games: {}", n)', 'to_string(n) + " steps"',
                                  'f"{len(games)} games"', '`${runs.length} points, last`', 'fmt::format("{:.0f} more boards", n)'))
def test_the_check_for_counted_words_notices_them(code):
    assert bare_counts(code)
    assert not bare_counts("// " + code.replace("\n", " "))


def test_each_header_is_guarded():
    headers = [name for name in FILES if name.endswith((".hpp", ".h", ".cuh"))]
    assert len(headers) > 10
    assert [name for name in headers if not re.search(r"^#pragma once$", text_of(name), re.M)] == []


def test_shell_scripts_parse():
    def is_shell(name):
        text = text_of(name) or ""
        return name.endswith((".sh", ".sbatch")) or bool(re.match(r"#!.*\b(ba)?sh\b", text))

    scripts = [name for name in FILES if is_shell(name)]
    assert {"train_ddp.sh", "test.sh"} <= set(scripts)
    failures = {}
    for name in scripts:
        done = subprocess.run(["bash", "-n", str(ROOT / name)], capture_output=True, text=True)
        if done.returncode != 0 or done.stderr:
            failures[name] = done.stderr
    assert failures == {}


def test_scripts_that_people_start_may_be_executed():
    assert [name for name in ("train_ddp.sh", "test.sh") if not os.access(ROOT / name, os.X_OK)] == []


@pytest.mark.parametrize("name", [name for name in FILES if re.fullmatch(r"examples/[^/]*\.py", name)])
def test_examples_are_small_named_by_their_docstrings_and_run_by_a_test(name):
    text = text_of(name)
    assert f"python {name}" in text
    assert len(text.splitlines()) <= 200
    assert pathlib.Path(name).stem in text_of("tests/python/test_learning.py")


# ---- places of one machine -----------------------------------------------------------------------------------------

MACHINE_PATH = r"(?<![\w.$}~*])/(?:work|home|root|Users|mnt|opt/wheels)/[\w.-]+"
PUBLIC_HOSTS = re.compile(
    r"(?:[\w-]+\.)*(?:github\.com|githubusercontent\.com|pytorch\.org|arxiv\.org|doi\.org|debian\.org|python\.org|pypi\.org|"
    r"nvidia\.com|schedmd\.com|kubernetes\.io|kubeflow\.org|jidiai\.cn|tensorflow\.org|w3\.org|json-schema\.org|"
    r"wikipedia\.org|openreview\.net|mlr\.press|nips\.cc|neurips\.cc|opensource\.org|cppreference\.com)")


def foreign_hosts(text):
    hosts = re.findall(r"https?://([\w.-]+)", text)
    return [host for host in hosts
            if not PUBLIC_HOSTS.fullmatch(host) and not re.fullmatch(r"localhost|127\.0\.0\.1|0\.0\.0\.0", host)]


def test_no_file_names_a_place_on_one_machine():
    assert lines_with(MACHINE_PATH) == []


def test_no_link_leads_out_of_the_repository():
    links = [name for name in TRACKED if (ROOT / name).is_symlink()]
    assert [name for name in links if os.path.isabs(os.readlink(ROOT / name))
            or not (ROOT / name).resolve().is_relative_to(ROOT)] == []


def test_no_file_names_a_host_that_only_some_can_reach():
    found = {name: foreign_hosts(text_of(name) or "") for name in FILES}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}
    assert lines_with(r"(?i)\b[\w.-]*(?:artifactory|nexus|registry|mirror)[\w-]*\.[\w-]+\.[\w.-]+") == []


def test_the_checks_for_places_notice_them():
    for path in ("home/me/x", "work/main", "root/.cache", "Users/me"):
        assert re.search(MACHINE_PATH, "see /" + path)
    for fine in ("$HOME/x", "tests/" + "work/x", "~/" + "work/x", "/usr/local/cuda", "${ROOT}/home/x"):
        assert not re.search(MACHINE_PATH, fine)
    assert foreign_hosts("pip install -i " + "https" + "://pip.internal.example/simple")
    assert not foreign_hosts("https://download.pytorch.org/whl/cpu")


# ---- links of the pages ----

def anchors(page):
    """As GitHub makes them of headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)", text, flags=re.M)]
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def test_links_between_pages_lead_to_headings():
    wrong = []
    for name in FILES:
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            file, _, anchor = target.partition("#")
            page = (ROOT / name).parent / file if file else ROOT / name
            if not target.startswith("http") and (not page.exists() or anchor and page.suffix == ".md" and anchor not in anchors(page)):
                wrong.append((name, target))
    assert wrong == []


# ---- the pages say what is true now ----

PAGES = [name for name in FILES if name.endswith(".md") and name.startswith(("README", "docs/", "launch/", "models/", "examples/", "SECURITY"))]
GENERATED = {f"docs/reference/{name}.md" for name in ("flags", "commands", "run_folder", "tags", "exit_codes")} | {"docs/results.md"}
MOST_LINES = {"README.md": 130, "README.zh.md": 130, "README_DDP.md": 280, "README_DDP.zh.md": 280, "docs/results.md": 200}
MOST_LINES_IN_ALL = 2600  # of those that people write in English

HISTORY = r"""(?ix)
    \b(?: since\ (?:then|version|v\d[\d.]*|20\d\d) | (?:has|have)\ since | until\ (?:now|then|recently|version|v\d[\d.]*|20\d\d) | up\ to\ now
    | (?:than|as|like|unlike)\ before\b(?!\ [a-z]) | before\ (?:this\ (?:change|version)|that\ change|version|v\d[\d.]*|20\d\d) | (?:from|of)\ before\b
    | before\ the\ \w+\ (?:existed|was\ added|were\ added)
    | no\ longer | formerly | previously | originally | historically | in\ the\ past | at\ that\ time | nowadays | recently | currently | today(?:'s)?
    | (?:an?|the|in|of|by|with|from)\ (?:earlier|older|previous|old)\ (?:versions?|releases?|builds?|presets?|pages?)\ of\ (?:the|this)\ (?:program|project|day|page|preset)
    | (?:this|the)\ (?:earlier|older|old|previous)\ (?:version|preset|page|figure|table|champion)s?
    | (?:was|were)\ (?:renamed|retired|superseded|introduced|replaced\ (?:by|with))|(?:has|have)\ been\ (?:renamed|retired|superseded|introduced|replaced)
    | not\ (?:\w+\ )?yet\ (?:run|tried|tested|measured|done)
    | (?<!is\ )(?<!are\ )(?<!be\ )(?<!was\ )(?<!were\ )(?<!been\ )(?<!and\ )used\ to\ (?:be|have|take|need|do|make|run|end|stand|read|write|cost)
    )\b | 旧版本 | 早期版本 | (?:以前|先前|之前)的版本 | 自那以后 | 此后改为 | 如今 | 目前尚 """
COMMIT = r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
DATE = r"\b20\d\d-[01]\d(?:-[0-3]\d)?\b|\b(?:January|February|March|April|June|July|August|September|October|November|December) 20\d\d\b|20\d\d ?年"
DATED = {"docs/results.md"}
# The platform, the Python trainer and its DDP variant have one name each.
OTHER_NAMES = (r"(?i)\b(?:the|python|game's) reference(?:'s)?(?! (?:data|pages?|section)\b)\b|\b(?:original|upstream|reference) (?:trainer|program|repository|code)\b|"
               r"\bpython ddp\b|\bpython (?:program|original|guide)\b|\bcompetition's (?:own )?(?:code|program|simulator|server|trainer|script)|"
               r"参考(?:实现|训练器|代码)|原版?训练器|Python DDP")


def prose(text, also_code=False):
    """A page's text in its lines, without what is quoted: outputs, code and the addresses of links."""
    text = re.sub(r"^\s*```.*?^\s*```", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    return text if also_code else re.sub(r"`[^`]*`", lambda code: "`" + "\n" * code.group().count("\n"), text)


def phrases(pattern, text, also_code=False):
    """(line, what was found), also where a line ends within it."""
    plain = prose(text, also_code)
    return [(plain.count("\n", 0, match.start()) + 1, match.group()) for match in re.finditer(pattern, plain.replace("\n", " "))]


def on_pages(pattern, pages, also_code=False):
    return [f"{name}:{line}: {words}" for name in pages for line, words in phrases(pattern, text_of(name), also_code)]


def test_pages_tell_no_history():
    assert on_pages(HISTORY, PAGES) == []


def test_pages_have_no_commits_and_dates():
    undated = [name for name in PAGES if name not in DATED]
    assert on_pages(COMMIT, undated, also_code=True) + on_pages(DATE, undated, also_code=True) == []


def test_other_systems_have_one_name_each():
    assert on_pages(OTHER_NAMES, PAGES) == []


@pytest.mark.parametrize("pattern, text", (
    *((HISTORY, text) for text in (
        "it fails since then", "Since version 2", "until v1.1", "until now", "The limit was the update. Until\n2026", "faster than before.", "bits of before the flags existed",
        "it no\nlonger loads", "a previously measured", "today's preset", "with an earlier version of the program", "the older preset", "it has been renamed",
        "not yet measured", "It used to be slow", "旧版本中", "如今可以")),
    *((COMMIT, text) for text in ("measured at 1fbf276", "`c92ddbf`")),
    *((DATE, text) for text in ("on 2026-11-22", "November 2026", "2026 年")),
    *((OTHER_NAMES, text) for text in ("as in the reference", "The reference's", "the Python reference", "reference trainer", "the upstream code", "Python DDP trainer",
                                       "competition's own code", "参考实现"))))
def test_the_checks_of_pages_notice_them(pattern, text):
    assert phrases(pattern, text, also_code=True)


def test_the_checks_of_pages_let_pass_what_is_not_history():
    fine = ("It trains until it is done, and saves before each vote. `no longer` is used to say so.\n```text\n2026-11-22 since then 1fbf276\n```\n"
            "The bits are the same as before the stop. Intel's since Sapphire Rapids; the previous checkpoint; [it](docs/reference/flags.md#the-reference). "
            "A reference implementation; an older glibc; arXiv:1706.05374; 1,192,964 bytes; run1_20261128_183103; deadbeef; ADPRL 2009; 这一步之前")
    assert [found for pattern in (HISTORY, COMMIT, DATE, OTHER_NAMES) for found in phrases(pattern, fine)] == []


def test_pages_are_short():
    lines = {name: len(text_of(name).splitlines()) for name in PAGES}
    assert {name: (lines[name], most) for name, most in MOST_LINES.items() if lines.get(name, 0) > most} == {}
    written = {name: count for name, count in lines.items() if not name.endswith(".zh.md") and name not in GENERATED}
    assert sum(written.values()) <= MOST_LINES_IN_ALL, sorted(written.items(), key=lambda page: -page[1])


# ---- test data -----------------------------------------------------------------------------------------------------

def uses(text, data_name):
    """Does a test's source name the file, whole or as the first and last of several pieces?"""
    pieces = [piece.lstrip("/") for piece in re.findall(r'"([^"\n]*)"', text)]
    starts = [piece for piece in pieces if len(piece) >= 4 and data_name.startswith(piece)]
    ends = [piece for piece in pieces if len(piece) >= 4 and data_name.endswith(piece)]
    return data_name in text or any(len(a) + len(b) <= len(data_name) for a in starts for b in ends)


def test_each_data_file_is_used_by_a_test():
    data = [name for name in FILES if name.startswith("tests/data/") and not name.endswith("README.md")]
    assert data
    tests = [text_of(name) or "" for name in FILES
             if name.startswith("tests/") and name.endswith((".cpp", ".hpp", ".py", ".txt", ".cmake"))]
    assert [name for name in data if not any(uses(text, pathlib.PurePath(name).name) for text in tests)] == []


def test_the_check_for_data_notices_a_file_that_no_test_names():
    assert uses('load("x/ddpg_tanh_updates.pth")', "ddpg_tanh_updates.pth")
    assert uses('load(folder + "/ddpg_" + activation + "_updates.pth")', "ddpg_tanh_updates.pth")
    assert not uses('load(folder + "/ddpg_" + activation + "_other.pth")', "ddpg_tanh_updates.pth")


# ---- pages in two languages -----------------------------------------------------------------------------------------------

READMES = (("README.md", "README.zh.md"), ("README_DDP.md", "README_DDP.zh.md"), ("docs/first_hour.md", "docs/first_hour.zh.md"))
COMMANDS = {"sh", "bash", "shell", "console", "json", "yaml"}


def structure(text):
    """Levels of headings; code blocks as (language, lines without comments or, where prose may be in them, count of
    lines); per table the first cells that name flags, with their second cells (defaults)."""
    headings, blocks, tables = [], [], []
    block = None
    for line in text.splitlines():
        fence = re.match(r"\s*```(\w*)", line)
        if fence and block is None:
            block = (fence.group(1), [])
        elif fence:
            language, lines = block
            blocks.append((language, lines if language in COMMANDS else len(lines)))
            block = None
        elif block is not None:
            block[1].append(re.sub(r"(^|\s)#.*", "", line).rstrip())
        elif heading := re.match(r"(#+) ", line):
            headings.append(len(heading.group(1)))
        elif line.lstrip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if flags := re.findall(r"`(--[\w-]+)[^`]*`", cells[0]):
                tables.append((flags, re.findall(r"`([^`]*)`", cells[1]) if len(cells) > 1 else []))
    assert block is None, "a code block is not closed"
    return {"headings": headings, "code blocks": blocks, "flags": tables}


@pytest.mark.parametrize("names", READMES, ids=lambda names: names[0])
@pytest.mark.parametrize("part", ["headings", "code blocks", "flags"])
def test_both_languages_have_the_same_structure(names, part):
    english, chinese = (structure((ROOT / name).read_text(encoding="utf-8"))[part] for name in names)
    assert english or part == "flags", f"no {part} in {names[0]}"
    assert english == chinese


def test_the_comparison_of_readmes_notices_differences():
    one = "# A\n## B\n```sh\n./train_ddp.sh  # starts\n```\n| flag | default |\n|---|---|\n| `--tau` | `0.01` |\n"
    same = "# Jia\n## Yi\n```sh\n./train_ddp.sh  # kai shi\n```\n| qi | mo |\n|---|---|\n| `--tau` | `0.01` |\n"
    assert structure(one) == structure(same)
    for part, old, new in (("headings", "## B", "### B"), ("code blocks", "./train", "./test"), ("flags", "tau", "gamma"),
                           ("flags", "0.01", "0.02")):
        assert structure(one.replace(old, new))[part] != structure(same)[part]
