# Sourced, from the root. python_environment FOLDER REQUIREMENTS [PIP-OPTION...]: sees to it that FOLDER is an environment with
# what the file REQUIREMENTS lists, made once and again when the list changes. Fails, and leaves no folder, where PyPI
# cannot be reached.
python_environment() {
  folder=$1 requirements=$2
  shift 2
  if cmp -s "$requirements" "$folder/requirements.txt"; then return 0; fi
  rm -rf "$folder"
  if python3 -m venv "$folder" &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" -r "$requirements"; then
    cp "$requirements" "$folder/requirements.txt"
  else
    rm -rf "$folder"
    return 1
  fi
}
