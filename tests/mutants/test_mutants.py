"""The scanner finds each fault's place, and reports faults that no longer match with advice."""

import pytest
import run
import scanner
from processes import wait_until_gone

BUFFER = """
namespace snake::replay {
namespace {
// Buffer::sample is below; } { "
constexpr int kRows = 3, kColumns[] = {1, 2};
}  // namespace
struct Shape { int rows = 2; int area() const { return rows * kRows; } };
template <class T, std::enable_if_t<(sizeof(T) > 2), int> = 0>
std::function<void(int)> made(const T& t) { return [t](int) { use(t); }; }
void Buffer::sample(int rows) {
  if (rows == 0) return;  // none
  take(rows, "all \\" of them" /* } */);
}
}
"""


def tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return scanner.read(root)


def found(root, files, name, code):
    all_files = tree(root, files)
    file, start, end = scanner.find(all_files, name, code)
    return str(file), all_files[file][0][start:end]


def names(text):
    return ["::".join(symbol.name) for symbol in scanner.symbols(text)]


# ---- what is a symbol ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("code, expected", [
    ("int f() { return 1; }", ["f"]),
    ("namespace a::b { namespace { int f() { return 1; } } inline namespace c { int g() { return 2; } } }", ["a::b::f", "a::b::c::g"]),
    ("extern \"C\" { int f() { return 1; } }", ["f"]),
    ("class A : public B<C> { public: A() : b_{1}, c_(f({2})) { go(); } ~A() { stop(); } int b_ = 0; };", ["A::A", "A::~A", "A::b_"]),
    ("template <class T> struct A<T*> final { [[nodiscard]] auto f() const noexcept -> std::array<int, 2> { return {}; } };", ["A::f"]),
    ("template <class T> int A<T>::B::f(std::map<int, int> m = {}) { return 1; }", ["A::B::f"]),
    ("std::function<void(int)> f(int x) { return {}; }", ["f"]),
    ("bool operator==(A a, A b) { return true; } void A::operator()(int i) const { go(i); } A::operator bool() const { return b; }",
     ["operator==", "A::operator()", "A::operatorbool"]),
    ("struct alignas(32) A { int f() { return 1; } }; struct A make() { return {}; } struct A a = {1};", ["A::f", "make", "a"]),
    ("enum class E : int { kOne = 1, kTwo }; const char* const kNames[] = {\"one\", \"two\"};", ["kNames"]),
    ("template <class T> requires std::integral<T> && (sizeof(T) > 2) T f(T t) requires C<T> { return t; }", ["f"]),
    ("template <class... B> A<B...>::A(B... b) : B(b)... { go(); } int g(); int h() { return g(); }", ["A::A", "h"]),
    ("__global__ void __launch_bounds__(128) f(int n) { go(n); }", ["f"]),
    ("#define F(x) { \\\n  (x\nint f() { return 1'000; }\n#if 0\n#endif", ["f"]),
    ("const char* kText = R\"(} \" { ()\"; int f() { return '{'; }", ["kText", "f"]),
    ("using A = B<int>; typedef int C; static_assert(sizeof(A) == 1); friend class D; class E; int f() { return 1; }", ["f"]),
    ("constexpr auto kTwice = [](int i) { return 2 * i; }; int f() { return 1; }", ["kTwice", "f"]),
    ("struct { int x = 1; }; int f() { struct B { int g() { return 1; } }; return B{}.g(); }", ["::x", "f"]),
])
def test_functions_and_variables_have_their_names(code, expected):
    assert names(code) == expected


def test_brackets_that_do_not_match_are_an_error():
    with pytest.raises(scanner.ScanError, match="text:2: } closes nothing"):
        scanner.symbols("int f() { return (1; \n } }")
    with pytest.raises(scanner.ScanError, match="never closed"):
        scanner.symbols("int f() {")


def test_each_file_of_this_repository_is_read_and_each_cpp_has_a_symbol():
    files = scanner.read(run.ROOT)
    assert len(files) > 200
    assert [str(file) for file, (text, symbols) in files.items() if file.suffix == ".cpp" and not symbols] == []


# ---- finding code --------------------------------------------------------------------------------------------------

def test_code_is_found_by_the_last_parts_of_its_functions_name(tmp_path):
    for name in ("sample", "Buffer::sample", "replay::Buffer::sample", "snake::replay::Buffer::sample"):
        assert found(tmp_path, {"src/a.cpp": BUFFER}, name, "rows == 0") == ("src/a.cpp", "rows == 0")
    for name, code in (("kRows", "3"), ("Shape::area", "rows * kRows"), ("Shape::rows", "= 2"), ("made", "use(t)")):
        assert found(tmp_path, {"src/a.cpp": BUFFER}, name, code) == ("src/a.cpp", code)


def test_a_function_may_move_to_another_file_and_namespace(tmp_path):
    moved = BUFFER.replace("snake::replay", "other")
    assert found(tmp_path, {"src/a.cpp": "int x;", "include/b/c.hpp": moved}, "Buffer::sample", "rows == 0") == (
        "include/b/c.hpp", "rows == 0")


def test_lines_may_be_wrapped_and_commented_differently(tmp_path):
    text = BUFFER.replace("(rows == 0)", "(rows  // how many\n      /* is */ ==\n      0)").replace('"all \\" of', '"all \\" "\n "of')
    assert found(tmp_path, {"src/a.cpp": text}, "sample", "rows==0")[1] == "rows  // how many\n      /* is */ ==\n      0"
    assert found(tmp_path, {"src/a.cpp": text}, "sample", 'take(rows, "all \\" of them")')[0] == "src/a.cpp"
    with pytest.raises(scanner.ScanError):  # as a comment it is not code
        found(tmp_path, {"src/a.cpp": text.replace("if", "// if rows == 0\nif").replace("==\n", "!=\n")}, "sample", "rows == 0")


def test_namespaces_before_a_name_do_not_matter(tmp_path):
    text = BUFFER.replace("take(", "::a::b::take(").replace("use(t)", "C<T>::use(t)")
    for code in ("take(rows", "b::take(rows", "c::take(rows"):
        assert found(tmp_path, {"src/a.cpp": text}, "sample", code) == ("src/a.cpp", "::a::b::take(rows")
    assert found(tmp_path, {"src/a.cpp": text}, "made", "use(t)") == ("src/a.cpp", "use(t)")


def test_whole_tokens_are_compared(tmp_path):
    for code in ("row == 0", "= 0", "rows = 0", "take(row"):
        with pytest.raises(scanner.ScanError):
            found(tmp_path, {"src/a.cpp": BUFFER}, "sample", code)


def test_of_overloads_the_one_with_the_code_is_meant(tmp_path):
    overloads = "int f(int a) { return a; } int f(float b) { return 2 * b; }"
    assert found(tmp_path, {"src/a.cpp": overloads}, "f", "2 *") == ("src/a.cpp", "2 *")


def test_code_that_occurs_twice_is_an_error_with_both_places(tmp_path):
    overloads = "int f(int a) { return a + 1; }\n\nint A::f(float a) { return a + 1; }"
    with pytest.raises(scanner.ScanError, match=r"f has this 2 times, .*: a \+ 1\n  src/a.cpp:1\n  src/a.cpp:3"):
        found(tmp_path, {"src/a.cpp": overloads}, "f", "a + 1")
    assert found(tmp_path, {"src/a.cpp": overloads}, "A::f", "a + 1")[0] == "src/a.cpp"


def test_code_that_is_gone_is_an_error_that_says_where_it_went(tmp_path):
    with pytest.raises(scanner.ScanError, match=r"(?s)sample does not have this: rows \* kRows.*it is in: snake::replay::Shape::area"):
        found(tmp_path, {"src/a.cpp": BUFFER}, "sample", "rows * kRows")
    with pytest.raises(scanner.ScanError, match=r"(?s)no function or variable Buffer::smple; there is sample.*in: .*Buffer::sample"):
        found(tmp_path, {"src/a.cpp": BUFFER}, "Buffer::smple", "rows == 0")
    with pytest.raises(scanner.ScanError, match="it is in: no other function"):
        found(tmp_path, {"src/a.cpp": BUFFER}, "sample", "rows == 4")


# ---- the runner ----------------------------------------------------------------------------------------------------

CASES = 'TEST_CASE("a sample has "\n          "rows", "[unit]") {}'
TEST = {"targets": ["test_replay"], "case": "a sample has rows"}


def checked(root, *faults, **test):
    tree(root, {"src/a.cpp": BUFFER, "tests/replay/test_a.cpp": CASES, "tests/b/test_b.py": "def test_one():\n    pass\n"})
    table = run.read_table([{**TEST, **test, "faults": faults}])
    return run.problems(list(table.values()), root), table


def test_a_fault_is_put_into_each_of_its_places(tmp_path):
    problems, table = checked(tmp_path, ("f", "sample", "rows == 0", "rows == 1", "kRows", "3", "4", "sample", "return", ""))
    assert problems == []
    (text,) = run.with_fault(table["f"], scanner.read(tmp_path)).values()
    assert text == BUFFER.replace("rows == 0) return;", "rows == 1) ;").replace("kRows = 3", "kRows = 4")


def test_the_check_finds_faults_that_change_nothing_and_tests_that_are_gone(tmp_path):
    fault = ("f", "sample", "rows == 0", "rows == 1")
    assert checked(tmp_path, ("f", "sample", "rows == 0", "rows == 0"))[0] == ["'f': changes nothing"]
    assert "does not have this" in checked(tmp_path, ("f", "sample", "rows == 7", "rows == 1"))[0][0]
    assert checked(tmp_path, fault, case="a sample has many rows")[0] == [
        "'f': no test 'test_replay: a sample has many rows'; is it now 'a sample has rows'?"]
    assert checked(tmp_path, fault, case="", pytest="b/test_b.py::test_one[3]")[0] == []
    assert checked(tmp_path, fault, case="", pytest="b/test_b.py::test_on")[0] == [
        "'f': no test 'b/test_b.py::test_on'; is it now 'test_one'?"]
    assert "no test" in checked(tmp_path, fault, case="", pytest="b/test_c.py::test_one")[0][0]


def test_two_faults_of_one_name_are_an_error(tmp_path):
    with pytest.raises(SystemExit, match="a name of its own"):
        checked(tmp_path, ("f", "sample", "rows == 0", "1"), ("f", "sample", "return", ""))


def test_results_are_found_again_for_the_same_code_and_fault(tmp_path):
    fault, other = (checked(tmp_path, ("f", "sample", "rows == 0", instead))[1]["f"] for instead in ("1", "2"))
    run.Results(tmp_path / "r", "abc").add(fault, fault.test, "noticed", 1.25, "red")
    run.Results(tmp_path / "r", "abc").add(None, fault.test, "passes", 2, "")
    again = run.Results(tmp_path / "r", "abc")
    assert again.find(fault, fault.test)["result"] == "noticed"
    assert again.find(None, fault.test)["result"] == "passes"
    assert again.find(other, other.test) is None
    assert run.Results(tmp_path / "r", "abd").find(fault, fault.test) is None


@pytest.mark.parametrize("build, test, result", [
    ("", "red", "noticed"), ("", "", "not noticed"), ("no such name", "", "not tried"), ("", KeyboardInterrupt, None)])
def test_the_copy_has_the_fault_during_the_test_only(tmp_path, monkeypatch, build, test, result):
    _, table = checked(tmp_path, ("f", "sample", "rows == 0", "rows == 1"))
    copy, during = tmp_path / "src" / "a.cpp", []

    def failure_of(_):
        during.append(copy.read_text())
        if test is KeyboardInterrupt:
            raise test
        return test

    monkeypatch.setattr(run, "COPY", tmp_path)
    monkeypatch.setattr(run, "build", lambda targets, jobs: build)
    monkeypatch.setattr(run, "failure_of", failure_of)
    files = scanner.read(tmp_path)
    if result is None:
        with pytest.raises(KeyboardInterrupt):
            run.attempt(table["f"], files, 1)
    else:
        assert run.attempt(table["f"], files, 1)[0] == result
    assert all("rows == 1" in text for text in during) and len(during) == (not build)
    assert copy.read_text() == BUFFER


def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path):
    pid = tmp_path / "pid"
    code, output = run.quiet(["bash", "-c", f"sleep 600 & echo $! > {pid}; wait"], limit_s=1)
    assert (code, output) == (1, "no end within 1 s")
    wait_until_gone([int(pid.read_text())], 60)  # killed; a busy machine takes a moment until it is gone


def test_two_runs_do_not_share_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "COPY", tmp_path / "copy")
    with run.alone():
        with pytest.raises(SystemExit, match="another run uses"):
            with run.alone():
                pass
    with run.alone():
        pass
