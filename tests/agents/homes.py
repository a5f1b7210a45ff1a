"""The packages of the agents: a virtual environment or a folder with node_modules each, made once.

They are under $SPANREEL_AGENTS_HOME, or .home beside this file.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HOME = pathlib.Path(os.environ.get("SPANREEL_AGENTS_HOME") or HERE / ".home").resolve()


def python():
    """The packages are pinned for Python 3.12; some of them have no wheels for a newer one."""
    named = os.environ.get("SPANREEL_AGENTS_PYTHON")
    for found in [named] if named else ["python3.12", "python3.11", "python3.13", sys.executable]:
        if shutil.which(found) and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    sys.exit("no Python 3 for the agents: set SPANREEL_AGENTS_PYTHON")


def pins(home):
    """The file that names the packages."""
    return HERE / home / "package.json" if home.startswith("js") else HERE / f"requirements-{home[3:]}.txt"


def stamp(home):
    return hashlib.sha256(pins(home).read_bytes()).hexdigest()


def is_there(home):
    mark = HOME / home / "installed"
    return mark.exists() and mark.read_text() == stamp(home)


def install(home):
    folder = HOME / home
    if is_there(home):
        return
    folder.mkdir(parents=True, exist_ok=True)
    if home.startswith("js"):
        shutil.copy(pins(home), folder / "package.json")
        command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=folder, check=True)
    else:
        if not (folder / "bin/python").exists():
            subprocess.run([python(), "-m", "venv", folder], check=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", pins(home)], check=True)
    (folder / "installed").write_text(stamp(home))


def command(scenario):
    """What starts the program."""
    folder = HOME / scenario["home"]
    if not scenario["home"].startswith("js"):
        return [str(folder / "bin/python"), str(HERE / "py" / scenario["program"])]
    # A module finds packages from where it is.
    for program in (HERE / "js").glob("*.mjs"):
        if not (folder / program.name).exists() or (folder / program.name).read_bytes() != program.read_bytes():
            shutil.copy(program, folder / program.name)
    options = [option.format(home=folder) for option in scenario.get("node", [])]
    return [str(folder / "node_modules/.bin/node"), *options, str(folder / scenario["program"])]
